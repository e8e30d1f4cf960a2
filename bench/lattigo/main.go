// Lattigo computes on a ciphertext of Tacita, with Tacita's keys: it decrypts it, squares it and rotates it.
//
// Reads one JSON object from standard input and writes one to standard output. Polynomials are coefficients,
// limb by limb: each library makes its own transform of them. tests/known_answers/test_known_answers_lattigo.py
// writes and reads both.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/ring/ringqp"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
	"github.com/tuneinsight/lattigo/v6/utils/structs"
)

// Poly holds the coefficients of a polynomial by limb: primes of ciphertexts, then special primes.
type Poly [][]uint64

// Key holds (b, a) of each digit of an evaluation key with so many limbs of ciphertexts.
type Key struct {
	Limbs  int
	Digits [][2]Poly
}

// Input is what Tacita made.
type Input struct {
	LogN        int
	LogScale    int
	Q, P        []uint64
	Secret      Poly
	Scale       float64
	Ciphertext  [2]Poly
	Relinearise Key
	Galois      Key
	Rotation    int
}

// Result is a ciphertext that Lattigo made.
type Result struct {
	Scale      float64
	Ciphertext [2]Poly
}

// Output is what Lattigo makes of it; the slots are the real and imaginary parts that it decrypts.
type Output struct {
	Slots           [][2]float64
	Square, Rotated Result
}

func main() {
	var in Input
	check(json.NewDecoder(os.Stdin).Decode(&in))
	params, err := ckks.NewParametersFromLiteral(ckks.ParametersLiteral{
		LogN: in.LogN, Q: in.Q, P: in.P, LogDefaultScale: in.LogScale,
	})
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(compute(params, in)))
}

func compute(params ckks.Parameters, in Input) Output {
	ct := ciphertext(params, in)
	relinearise := rlwe.NewRelinearizationKey(params)
	fill(params, in.Relinearise, relinearise.GadgetCiphertext)
	level := in.Galois.Limbs - 1
	galois := rlwe.NewGaloisKey(params, rlwe.EvaluationKeyParameters{LevelQ: &level})
	galois.GaloisElement, galois.NthRoot = params.GaloisElement(in.Rotation), uint64(params.N()*2)
	fill(params, in.Galois, galois.GadgetCiphertext)
	evaluator := ckks.NewEvaluator(params, rlwe.NewMemEvaluationKeySet(relinearise, galois))

	square, err := evaluator.MulRelinNew(ct, ct)
	check(err)
	check(evaluator.Rescale(square, square))
	rotated, err := evaluator.RotateNew(ct, in.Rotation)
	check(err)
	return Output{slots(params, in, ct), result(params, square), result(params, rotated)}
}

func ciphertext(params ckks.Parameters, in Input) *rlwe.Ciphertext {
	ct := ckks.NewCiphertext(params, 1, len(in.Ciphertext[0])-1)
	ct.Scale = rlwe.NewScale(in.Scale)
	ringQ := params.RingQ().AtLevel(ct.Level())
	for i, half := range in.Ciphertext {
		ringQ.NTT(poly(half), ct.Value[i])
	}
	return ct
}

// fill sets the digits of a key: values in Montgomery's form, as Lattigo keeps keys.
func fill(params ckks.Parameters, key Key, into rlwe.GadgetCiphertext) {
	ringQP := params.RingQP().AtLevel(key.Limbs-1, params.MaxLevelP())
	for d, digit := range key.Digits {
		for half := range digit {
			set(ringQP, digit[half], key.Limbs, into.Value[d][0][half])
		}
	}
}

func set(ringQP ringqp.Ring, from Poly, limbs int, to ringqp.Poly) {
	ringQP.NTT(ringqp.Poly{Q: poly(from[:limbs]), P: poly(from[limbs:])}, to)
	ringQP.MForm(to, to)
}

func slots(params ckks.Parameters, in Input, ct *rlwe.Ciphertext) [][2]float64 {
	secret := rlwe.NewSecretKey(params)
	set(*params.RingQP(), in.Secret, len(in.Q), secret.Value)
	values := make([]complex128, params.MaxSlots())
	plain := ckks.NewDecryptor(params, secret).DecryptNew(ct)
	check(ckks.NewEncoder(params).Decode(plain, values))
	parts := make([][2]float64, len(values))
	for i, z := range values {
		parts[i] = [2]float64{real(z), imag(z)}
	}
	return parts
}

func result(params ckks.Parameters, ct *rlwe.Ciphertext) (r Result) {
	ringQ := params.RingQ().AtLevel(ct.Level())
	for i := range r.Ciphertext {
		ringQ.INTT(ct.Value[i], ct.Value[i])
		r.Ciphertext[i] = Poly(ct.Value[i].Coeffs[:ct.Level()+1])
	}
	r.Scale = ct.Scale.Float64()
	return r
}

func poly(limbs Poly) ring.Poly {
	return ring.Poly{Coeffs: structs.Matrix[uint64](limbs)}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
