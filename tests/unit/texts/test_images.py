"""What a client makes of an image: sizes, crops, colours and the order of patches, against small cases by
hand; the models behind them are compared in `test_families.py`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from test_families import DATA, folder_of

from tacita.checkpoint import load
from tacita.checkpoint.config import read_config
from tacita.checkpoint.weights import cubic, for_size
from tacita.errors import CheckpointError, InputError
from tacita.texts.embedding import FrontConfig, ImageConfig, limits
from tacita.texts.images import embed_image, flattened, hidden_of, pixels

CONFIG = ImageConfig(size=4, patch=2, extra=1)
PREPARED = {
    "do_resize": True,
    "size": {"shortest_edge": 16},
    "do_center_crop": True,
    "crop_size": {"height": 12, "width": 12},
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def test_patches_are_cut_row_by_row_and_laid_out_colour_by_colour() -> None:
    values = np.arange(3 * 4 * 4, dtype=float).reshape(3, 4, 4)
    patches = flattened(values, 2)
    assert patches.shape == (4, 12)
    assert patches[1].tolist() == [2, 3, 6, 7, 18, 19, 22, 23, 34, 35, 38, 39]


def test_a_patch_is_mapped_as_a_convolution_would(tmp_path: Path) -> None:
    model, rng = load(folder_of("vit-class", tmp_path)), np.random.default_rng(0)
    values = rng.normal(size=(3, 12, 12))
    weight = model.tensors["embeddings.patch_embeddings.projection.weight"].reshape(12, 3, 4, 4)
    by_hand = np.einsum("ocyx,cyx->o", weight, values[:, 4:8, 8:12])
    by_hand += model.tensors["embeddings.patch_embeddings.projection.bias"]
    by_hand += model.tensors["embeddings.position_embeddings.weight"][1 + 3 + 2]
    assert np.allclose(hidden_of(model, values)[1 + 3 + 2], by_hand)


def test_an_image_is_resized_shifted_and_divided() -> None:
    image_module = pytest.importorskip("PIL.Image")
    colours = np.zeros((4, 4, 3), np.uint8)
    colours[..., 0], colours[..., 1] = 255, 51
    config = replace(CONFIG, mean=(0.5, 0.1, 0.2), spread=(0.5, 0.2, 0.1))
    values = pixels(image_module.fromarray(colours), config)
    assert values.shape == (3, 4, 4)
    assert np.allclose(values[:, 2, 3], [1.0, 0.5, -2.0])
    wide = image_module.fromarray(np.repeat(colours, 5, axis=1))
    assert pixels(wide, config).shape == (3, 4, 4)


def test_the_middle_is_cut_out() -> None:
    image_module = pytest.importorskip("PIL.Image")
    colours = np.zeros((6, 12, 3), np.uint8)
    colours[1:5, 4:8] = 255
    values = pixels(image_module.fromarray(colours), replace(CONFIG, shortest=6))
    assert (values == 1.0).all()


def test_both_sides_are_scaled_before_the_middle_is_cut_out(tmp_path: Path) -> None:
    """DeiT's processor does this: a wide image loses none of its height, and is squeezed."""
    image_module = pytest.importorskip("PIL.Image")
    config = config_of(tmp_path, {"size": {"height": 16, "width": 16}})
    assert config == replace(config_of(tmp_path, {}), square=True)
    image = image_module.fromarray(np.random.default_rng(0).integers(0, 255, (20, 60, 3), np.uint8))
    squeezed = image.resize((16, 16), resample=image_module.Resampling.BICUBIC).crop((2, 2, 14, 14))
    wanted = (np.asarray(squeezed) / 255.0 - config.mean) / config.spread
    assert np.allclose(pixels(image, config), np.moveaxis(wanted, -1, 0))


@pytest.mark.parametrize(
    ("changes", "square"),
    [
        ({}, False),
        ({"size": 16}, True),
        ({"size": 16, "feature_extractor_type": "DeiTFeatureExtractor"}, True),
        ({"size": 16, "image_processor_type": "BitImageProcessor"}, False),
        ({"do_center_crop": False, "size": 12}, False),
    ],
)
def test_a_number_of_pixels_is_what_the_processors_class_makes_of_it(
    tmp_path: Path, changes: dict[str, Any], square: bool
) -> None:
    assert config_of(tmp_path, changes).square == square


def test_images_leave_the_hash_of_older_checkpoints(tmp_path: Path) -> None:
    assert load(folder_of("vit-class", tmp_path)).sha256.startswith("539fabba195e8049")


def test_files_become_hidden_states_as_a_plan_takes_them(tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    model = load(folder_of("vit-class", tmp_path))
    image_module.fromarray(np.full((30, 20, 3), 200, np.uint8)).save(tmp_path / "a.png")
    hidden, mask = embed_image(model, tmp_path / "a.png", 16)
    assert hidden.shape == (16, 12) and mask.tolist() == [1.0] * 10 + [0.0] * 6
    gray = image_module.open(tmp_path / "a.png").convert("L")
    assert np.array_equal(embed_image(model, gray, 16)[0], hidden)
    (tmp_path / "b.png").write_bytes(b"not an image")
    for bad in ("b.png", "absent.png"):
        with pytest.raises(InputError, match="not an image"):
            embed_image(model, tmp_path / bad, 16)


def test_images_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    model = load(folder_of("vit-class", tmp_path))
    with pytest.raises(InputError, match="an image has 10 tokens, the plan 8"):
        embed_image(model, "a.png", 8)
    texts = load(folder_of("bert-class", tmp_path))
    with pytest.raises(CheckpointError, match="the model takes texts"):
        embed_image(texts, "a.png", 16)
    bare = load(tmp_path / "vit-class", embeddings=False)
    with pytest.raises(CheckpointError, match="no tables"):
        embed_image(bare, "a.png", 16)


def config_of(place: Path, changes: dict[str, Any], **own: Any) -> ImageConfig:
    fields = json.loads((DATA / "vit-class" / "config.json").read_text()) | own
    (place / "config.json").write_text(json.dumps(fields))
    (place / "preprocessor_config.json").write_text(json.dumps(PREPARED | changes))
    found = read_config(place, None, True, list).image
    assert found is not None
    return found


def test_the_preprocessors_file_is_read(tmp_path: Path) -> None:
    found = config_of(tmp_path, {})
    assert (found.size, found.shortest, found.resample, found.tokens) == (12, 16, "bicubic", 10)
    assert found.mean == (0.485, 0.456, 0.406) and found.spread == (0.229, 0.224, 0.225)
    squeezed = config_of(tmp_path, {"do_center_crop": False, "size": 12, "resample": 2})
    assert (squeezed.shortest, squeezed.resample) == (0, "bilinear")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_normalize": False}, "do_normalize is False"),
        ({"rescale_factor": 1.0}, "rescale_factor is 1.0"),
        ({"crop_size": 14}, "crop_size is 14"),
        ({"size": {"shortest_edge": 8}}, "size is"),
        ({"do_center_crop": False}, "size is"),
        ({"size": {"height": 16, "width": 12}}, "size is"),
        ({"resample": 1}, "resample is 1"),
        ({"crop_pct": 0.9}, "crop_pct is 0.9"),
        ({"do_center_crop": False, "size": {"shortest_edge": 12}}, "do_center_crop is False"),
        (
            {"do_center_crop": False, "size": 12, "image_processor_type": "BitImageProcessor"},
            "do_center_crop is False",
        ),
        ({"image_mean": [0.5]}, "image_mean is"),
        ({"image_std": [0.5, 0.5, 0.0]}, "image_std is 0"),
    ],
)
def test_other_preparations_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        config_of(tmp_path, changes)


def test_images_of_more_tokens_than_plans_have_are_refused(tmp_path: Path) -> None:
    from tacita.models.registry import check

    large = {"size": 368, "crop_size": 368}
    config_of(tmp_path, large, image_size=368)
    with pytest.raises(CheckpointError, match="8465 tokens, at most 8192") as caught:
        check(read_config(tmp_path, None, True, list))
    assert "224" in caught.value.hint


HOSTILE: list[dict[str, Any]] = [
    {"size": 1 << 30},
    {"patch": 3},
    {"patch": 0},
    {"extra": 9},
    {"spread": (0.5, 0.0, 0.5)},
    {"mean": (0.5,)},
    {"mean": (float("nan"), 0.0, 0.0)},
    {"shortest": 3},
    {"resample": "nearest"},
]


@pytest.mark.parametrize("changes", HOSTILE)
def test_a_hostile_plans_image_is_refused(changes: dict[str, Any]) -> None:
    def front(image: ImageConfig) -> FrontConfig:
        return FrontConfig(1, 5, 0, 1e-6, False, True, image=image)

    assert all(right for _, right in limits(front(CONFIG)))
    assert not all(right for _, right in limits(front(replace(CONFIG, **changes))))


def test_positions_between_the_learned_ones_are_cubic() -> None:
    halves = [[0.5, 0.59375, -0.09375, 0.0], [0.0, -0.09375, 0.59375, 0.5]]  # by hand, bend -0.75
    assert np.allclose(cubic(4, 2), halves)
    assert np.allclose(cubic(37, 16).sum(axis=1), 1.0) and np.allclose(cubic(5, 5), np.eye(5))
    slope = np.arange(37.0)
    assert np.allclose((cubic(37, 16) @ slope)[1:-1], (np.arange(16)[1:-1] + 0.5) * 37 / 16 - 0.5, atol=0.06)


def test_a_square_of_positions_takes_another_size() -> None:
    first, learned = np.full((1, 2), 9.0), np.random.default_rng(0).normal(size=(4, 4, 2))
    table = np.concatenate([first, learned.reshape(16, 2)])[None]
    found = for_size(table, 1, 5)
    halves = cubic(4, 2)
    assert found.shape == (5, 2) and found[0].tolist() == [9.0, 9.0]
    across = [[halves[i] @ learned[..., k] @ halves[j] for j in range(2)] for i in range(2) for k in range(2)]
    assert np.allclose(found[1:].reshape(2, 2, 2).transpose(0, 2, 1).reshape(4, 2), across)
    assert for_size(table, 1, 17) is table  # of this size
    assert for_size(table, 2, 6) is table and for_size(table, 1, 6) is table  # no squares


def resized_folder(place: Path, across: int) -> Path:
    """DINOv2 as it is published: trained on `across`^2 patches of 4 x 4 pixels, used on 12 pixels."""
    folder = folder_of("dinov2-model", place)
    fields = json.loads((folder / "config.json").read_text()) | {"image_size": 4 * across}
    (folder / "config.json").write_text(json.dumps(fields))
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPARED))
    tensors = load_file(folder / "model.safetensors")
    (name,) = (name for name in tensors if "position" in name)
    first, rest = tensors[name][:, :1], np.ones((1, across**2, 12), np.float16)
    save_file(tensors | {name: np.concatenate([first, rest], axis=1)}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("across", [7, 40])
def test_dinov2_is_loaded_for_the_size_that_its_folder_prepares(tmp_path: Path, across: int) -> None:
    model = load(resized_folder(tmp_path, across))
    image = model.config.image
    assert image is not None and (image.size, image.shortest, model.config.pooling) == (12, 16, "cls")
    table = model.tensors["embeddings.position_embeddings.weight"]
    assert table.shape == (10, 12) and np.allclose(table[1:], 1.0) and not np.allclose(table[0], 1.0)
    (tmp_path / "dinov2-model" / "preprocessor_config.json").write_text(
        json.dumps(PREPARED | {"crop_size": 14})
    )
    with pytest.raises(CheckpointError, match="crop_size is 14"):
        load(tmp_path / "dinov2-model")


def test_a_table_of_positions_that_is_no_square_is_refused(tmp_path: Path) -> None:
    folder = resized_folder(tmp_path, 5)
    tensors = load_file(folder / "model.safetensors")
    (name,) = (name for name in tensors if "position" in name)
    save_file(tensors | {name: tensors[name][:, :-1]}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="position_embeddings"):
        load(folder)


def broken_files(place: Path) -> dict[str, bytes]:
    """Files that begin as images and do not go on as such."""
    image_module = pytest.importorskip("PIL.Image")
    image = image_module.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), np.uint8))
    whole = {}
    for kind in ("png", "jpeg", "gif"):
        image.save(place / f"whole.{kind}")
        whole[kind] = (place / f"whole.{kind}").read_bytes()
    png = whole["png"]
    return {
        **{f"cut.{kind}": data[: len(data) // 2] for kind, data in whole.items()},
        "sum.png": png[:60] + bytes([png[60] ^ 255]) + png[61:],
        "empty.png": b"",
        "size.png": png[:16] + (1 << 28).to_bytes(4, "big") * 2 + png[24:],
    }


def test_broken_files_are_refused_by_name(tmp_path: Path) -> None:
    model = load(folder_of("vit-class", tmp_path))
    for name, data in broken_files(tmp_path).items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=f"{name}: (not an image|more than)"):
            embed_image(model, tmp_path / name, 16)


def test_more_pixels_than_are_opened_are_refused(tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    model = load(folder_of("vit-class", tmp_path))
    image_module.new("1", (9000, 8000)).save(tmp_path / "large.png")
    assert (tmp_path / "large.png").stat().st_size < 20_000
    with pytest.raises(InputError, match=r"large\.png: more than 67108864 pixels"):
        embed_image(model, tmp_path / "large.png", 16)


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "CMYK", "1"])
def test_images_of_every_kind_of_colours_have_three(mode: str, tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    model = load(folder_of("vit-class", tmp_path))
    gray = image_module.fromarray(np.full((30, 20, 3), 255, np.uint8)).convert(mode)
    gray.save(tmp_path / ("a.jpg" if mode == "CMYK" else "a.png"))
    found = embed_image(model, tmp_path / ("a.jpg" if mode == "CMYK" else "a.png"), 16)[0]
    white = embed_image(model, image_module.new("RGB", (20, 30), "white"), 16)[0]
    assert np.allclose(found, white)


def test_an_image_is_turned_as_its_file_says(tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    model = load(folder_of("vit-class", tmp_path))
    upright = image_module.fromarray(np.random.default_rng(0).integers(0, 255, (12, 12, 3), np.uint8))
    exif = image_module.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    upright.transpose(image_module.Transpose.ROTATE_90).save(tmp_path / "a.png", exif=exif)
    assert np.allclose(embed_image(model, tmp_path / "a.png", 16)[0], embed_image(model, upright, 16)[0])
