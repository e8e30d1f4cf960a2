/** What the page says, in three languages. The key of a sentence is its English wording; what stands in
 * braces is filled in. What a server or the engine says is passed on as it is, in English. */

type Words = Readonly<Record<string, readonly [german: string, chinese: string]>>;

export const LANGUAGES = { en: "English", de: "Deutsch", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;

export const WORDS = {
  "Ask a model that never sees your text": [
    "Fragen Sie ein Modell, das Ihren Text nie sieht",
    "向看不到您文本的模型提问",
  ],
  "Language": ["Sprache", "语言"],
  "Your text stays in this page.": ["Ihr Text bleibt auf dieser Seite.", "您的文本留在本页面。"],
  "The server computes on numbers that it cannot read, and the answer is opened here.": [
    "Der Server rechnet mit Zahlen, die er nicht lesen kann; die Antwort wird hier geöffnet.",
    "服务器只对它无法读取的数字进行计算，答案在这里解密。",
  ],
  "For tests only: this page takes parameters that keep nothing secret (?allow-insecure in its address).": [
    "Nur zum Testen: Diese Seite nimmt Parameter an, die nichts geheim halten " +
      "(?allow-insecure in der Adresse).",
    "仅供测试：本页面接受不保密的参数（地址中含 ?allow-insecure）。",
  ],
  // the form
  "Access token": ["Zugangstoken", "访问令牌"],
  "Model": ["Modell", "模型"],
  "{name} ({what}, up to {count} tokens)": [
    "{name} ({what}, bis {count} Token)",
    "{name}（{what}，最多 {count} 个词元）",
  ],
  "How to ask": ["Wie gefragt wird", "提问方式"],
  "Talk with the server": ["Mit dem Server sprechen", "与服务器对话"],
  "Send once, come back": ["Einmal senden, später abholen", "一次发送，稍后取回"],
  "both compute while they talk; no keys are kept": [
    "beide rechnen, während sie sprechen; keine Schlüssel werden behalten",
    "双方边通信边计算；不保留密钥",
  ],
  "the server computes alone; keys go first": [
    "der Server rechnet allein; zuerst gehen Schlüssel hin",
    "服务器独自计算；先发送密钥",
  ],
  "Text": ["Text", "文本"],
  "Question": ["Frage", "问题"],
  "Prompt": ["Anfang", "开头"],
  "Examples": ["Beispiele", "示例"],
  "Text with a mask": ["Text mit einer Lücke (Maske)", "带掩码的文本"],
  "Second text, for a model of pairs": [
    "Zweiter Text, für ein Modell von Paaren",
    "第二段文本（用于句对模型）",
  ],
  "Context": ["Text, in dem die Antwort steht", "包含答案的文本"],
  "Search among these lines (one text a line; may stay empty)": [
    "In diesen Zeilen suchen (je Zeile ein Text; darf leer bleiben)",
    "在这些行中搜索（每行一段文本；可留空）",
  ],
  "It is cut into tokens here; a text that is too long is refused before anything is sent.": [
    "Er wird hier in Token zerlegt; ein zu langer Text wird abgelehnt, bevor etwas gesendet wird.",
    "文本在此处切分为词元；过长的文本在发送任何内容之前就会被拒绝。",
  ],
  "What is written": ["Was geschrieben wird", "写作设置"],
  "Tokens at most": ["Höchstens so viele Token", "最多词元数"],
  "Temperature: 0 for the likeliest token": [
    "Temperatur: 0 für das wahrscheinlichste Token",
    "温度：0 表示最可能的词元",
  ],
  "Classify": ["Einordnen", "分类"],
  "Embed": ["Einbetten", "嵌入"],
  "Search": ["Suchen", "搜索"],
  "Tag": ["Markieren", "标注"],
  "Answer": ["Antworten", "回答"],
  "Fill": ["Ausfüllen", "填空"],
  "Write": ["Schreiben", "写作"],
  "Stop": ["Anhalten", "停止"],
  // tasks, behind a model's name
  "vectors": ["Vektoren", "向量"],
  "labels of words": ["Namen im Text", "词语标签"],
  "answers from a context": ["Antworten aus einem Text", "从上下文中回答"],
  "words for a mask": ["Wörter für eine Lücke", "填补掩码的词"],
  "writes texts": ["schreibt Texte", "写作文本"],
  "numbers": ["Zahlen", "数值"],
  // prices
  "About {answer} and {traffic} for the prompt.": [
    "Etwa {answer} und {traffic} für den Anfang.",
    "开头约需 {answer} 和 {traffic}。",
  ],
  "{each} and {bytes} for each token behind it.": [
    "{each} und {bytes} für jedes weitere Token.",
    "之后每个词元 {each} 和 {bytes}。",
  ],
  "If the connection breaks, the server keeps its half of the numbers for five minutes.": [
    "Bricht die Verbindung ab, behält der Server seine Hälfte der Zahlen fünf Minuten lang.",
    "如果连接中断，服务器会将它那一半数值保留五分钟。",
  ],
  "About {answer} and {traffic} each text; nothing is kept.": [
    "Etwa {answer} und {traffic} je Text; nichts wird behalten.",
    "每段文本约需 {answer} 和 {traffic}；不保留任何内容。",
  ],
  "Each text sends {bytes} and takes the server about {answer}.": [
    "Jeder Text sendet {bytes}; der Server braucht dafür etwa {answer}.",
    "每段文本发送 {bytes}，服务器约需 {answer}。",
  ],
  "Each token sends {bytes} and takes the server about {answer}.": [
    "Jedes Token sendet {bytes}; der Server braucht dafür etwa {answer}.",
    "每个词元发送 {bytes}，服务器约需 {answer}。",
  ],
  "Each token, of the prompt too, sends {bytes} and takes the server about {answer}.": [
    "Jedes Token, auch des Anfangs, sendet {bytes}; der Server braucht dafür etwa {answer}.",
    "每个词元（包括开头的）发送 {bytes}，服务器约需 {answer}。",
  ],
  "The server keeps {kept} for the text, which it cannot read, until the text ends.": [
    "Der Server behält {kept} für den Text, die er nicht lesen kann, bis der Text endet.",
    "服务器为该文本保留 {kept} 它无法读取的数据，直到文本结束。",
  ],
  "Your keys are at the server until you leave this page.": [
    "Ihre Schlüssel liegen beim Server, bis Sie diese Seite verlassen.",
    "在您离开本页面之前，您的公开密钥保存在服务器上。",
  ],
  "First {bytes} of keys are made here and sent, once.": [
    "Zuerst werden hier {bytes} Schlüssel erzeugt und einmal gesendet.",
    "首先在此生成 {bytes} 的密钥并发送一次。",
  ],
  "That takes about {made}, or as long as sending takes ({links}).": [
    "Das dauert etwa {made}, oder so lange das Senden dauert ({links}).",
    "生成约需 {made}，或取决于发送时间（{links}）。",
  ],
  "{time} at {rate} Mbit/s": ["{time} bei {rate} Mbit/s", "{rate} Mbit/s 时 {time}"],
  "The secret key stays in this page's memory and is gone when you leave it.": [
    "Der geheime Schlüssel bleibt im Speicher dieser Seite und ist weg, wenn Sie sie verlassen.",
    "私钥只在本页面的内存中，离开即消失。",
  ],
  "The server then drops the keys.": [
    "Der Server löscht dann die Schlüssel.",
    "届时服务器会删除其余密钥。",
  ],
  // the picture
  "The way of your text": ["Der Weg Ihres Textes", "您的文本的旅程"],
  "Your text": ["Ihr Text", "您的文本"],
  "only in this page": ["nur auf dieser Seite", "仅在本页面"],
  "What travels": ["Was unterwegs ist", "传输的内容"],
  "the last bytes of real messages": [
    "die letzten Bytes echter Nachrichten",
    "真实消息的最后几个字节",
  ],
  "Nothing yet. Ask, and the bytes appear here as they pass.": [
    "Noch nichts. Fragen Sie, und die Bytes erscheinen hier, während sie vorbeigehen.",
    "还没有内容。提问后，经过的字节会显示在这里。",
  ],
  "Sent": ["Gesendet", "已发送"],
  "Received": ["Empfangen", "已接收"],
  "What the server sees": ["Was der Server sieht", "服务器看到的内容"],
  "Who asks": ["Wer fragt", "提问者"],
  "your address": ["Ihre Adresse", "您的网络地址"],
  "When": ["Wann", "时间"],
  "when you ask": ["wenn Sie fragen", "提问时"],
  "nothing yet": ["noch nichts", "尚无"],
  "Which model": ["Welches Modell", "模型"],
  "How many texts": ["Wie viele Texte", "文本数量"],
  "How long it is": ["Wie lang er ist", "长度"],
  "to 16 tokens (to one behind a public beginning), and {count} tokens written": [
    "auf 16 Token genau (hinter einem öffentlichen Anfang auf eines), und {count} geschriebene Token",
    "精确到 16 个词元（在公开开头之后精确到 1 个），另写出 {count} 个词元",
  ],
  "to the token, and {count} tokens written": [
    "auf das Token genau, und {count} geschriebene Token",
    "精确到词元，另写出 {count} 个词元",
  ],
  "{count} tokens asked for, and nothing more": [
    "{count} verlangte Token, sonst nichts",
    "只知请求了 {count} 个词元",
  ],
  "What came": ["Was ankam", "收到的内容"],
  "{bytes} of ciphertexts and numbers that look random": [
    "{bytes} Chiffrate und Zahlen, die zufällig aussehen",
    "{bytes} 密文和看似随机的数字",
  ],
  "{bytes} of public keys and ciphertexts": [
    "{bytes} öffentliche Schlüssel und Chiffrate",
    "{bytes} 公开密钥和密文",
  ],
  "The answer": ["Die Antwort", "答案"],
  "not seen": ["nicht zu sehen", "看不到"],
  "This holds for a server that follows the protocol.": [
    "Das gilt für einen Server, der sich an das Protokoll hält.",
    "以上适用于遵守协议的服务器。",
  ],
  "The program of this page came from the server too: who does not trust it installs the client.": [
    "Auch das Programm dieser Seite kam vom Server: Wer ihm nicht traut, installiert den Client.",
    "本页面的程序也来自服务器：不信任它的人应改为安装客户端。",
  ],
  // while it waits
  "Progress": ["Fortschritt", "进度"],
  "connecting": ["Verbindung wird aufgebaut", "正在连接"],
  "Under way: only unreadable bytes leave this page": [
    "Unterwegs: Nur unlesbare Bytes verlassen diese Seite",
    "进行中：离开本页面的只有不可读的字节",
  ],
  "{elapsed} so far": ["{elapsed} bisher", "已用 {elapsed}"],
  "{elapsed} so far, about {left} left": [
    "{elapsed} bisher, noch etwa {left}",
    "已用 {elapsed}，约剩 {left}",
  ],
  "text {at} of {count}": ["Text {at} von {count}", "第 {at}/{count} 段文本"],
  "loading the public part of the model: {done} of {total}": [
    "der öffentliche Teil des Modells wird geladen: {done} von {total}",
    "正在加载模型的公开部分：{done} / {total}",
  ],
  "loading the public part of the model": [
    "der öffentliche Teil des Modells wird geladen",
    "正在加载模型的公开部分",
  ],
  "making and sending keys: {done} of {total}": [
    "Schlüssel werden erzeugt und gesendet: {done} von {total}",
    "正在生成并发送密钥：{done} / {total}",
  ],
  "making keys and sending them": ["Schlüssel werden erzeugt und gesendet", "正在生成并发送密钥"],
  "encrypting": ["verschlüsseln", "正在加密"],
  "sending the request": ["die Anfrage wird gesendet", "正在发送请求"],
  "waiting: {count} requests before this one": [
    "warten: {count} Anfragen sind vorher dran",
    "等待中：前面有 {count} 个请求",
  ],
  "the server computes: {step}": ["der Server rechnet: {step}", "服务器正在计算：{step}"],
  "checking the answer's receipt and decrypting": [
    "die Quittung der Antwort wird geprüft, dann entschlüsselt",
    "正在校验答案凭证并解密",
  ],
  "making keys, once a session": ["Schlüssel für diese Sitzung", "正在生成本次会话的密钥"],
  "preparing the next tokens": ["die nächsten Token werden vorbereitet", "正在准备后续词元"],
  "choosing a token": ["ein Token wird gewählt", "正在选择词元"],
  "stopping behind this token": ["hält hinter diesem Token an", "将在此词元后停止"],
  "layer {number}: {step}": ["Schicht {number}: {step}", "第 {number} 层：{step}"],
  "attention": ["Aufmerksamkeit", "注意力"],
  "feed forward": ["Vorwärtsnetz", "前馈网络"],
  "classifier": ["Klassifikator", "分类器"],
  "pooler": ["Pooler", "池化层"],
  "{count} bytes": ["{count} Bytes", "{count} 字节"],
  // what came of it
  "Answer: {label}": ["Antwort: {label}", "答案：{label}"],
  "Written: {count} tokens": ["Geschrieben: {count} Token", "已写出 {count} 个词元"],
  "token {token} could as well be {others}": [
    "Token {token} könnte ebenso gut {others} sein",
    "第 {token} 个词元也可能是 {others}",
  ],
  "{count} tokens": ["{count} Token", "{count} 个词元"],
  "1 token": ["1 Token", "1 个词元"],
  "{count} numbers, length {length}": [
    "{count} Zahlen, Länge {length}",
    "{count} 个数值，长度 {length}",
  ],
  "none: its checks failed": ["keine: Die Prüfungen sind fehlgeschlagen", "无：校验失败"],
  "no label holds": ["kein Etikett trifft zu", "没有符合的标签"],
  "no span": ["keine Stelle", "没有片段"],
  "Scores": ["Bewertung", "得分"],
  "What it took": ["Was es gekostet hat", "开销"],
  "Time": ["Zeit", "时间"],
  "Times waited for the server": ["So oft auf den Server gewartet", "等待服务器的次数"],
  "Copy the numbers": ["Die Zahlen kopieren", "复制数值"],
  "copied": ["kopiert", "已复制"],
  "the server keeps no further text of yours: stop one on another page, or ask later": [
    "der Server behält keinen weiteren Text von Ihnen: Beenden Sie einen auf einer anderen Seite, " +
      "oder fragen Sie später",
    "服务器不再为您保留更多文本：请停止另一页面上的文本，或稍后再问",
  ],
  "stopped": ["angehalten", "已停止"],
  "this server has no model that a page can ask": [
    "dieser Server hat kein Modell, das eine Seite fragen kann",
    "此服务器没有本页面可以提问的模型",
  ],
  "this page needs the headers COOP and COEP, over HTTPS or from this machine": [
    "diese Seite braucht die Header COOP und COEP, über HTTPS oder von diesem Rechner",
    "本页面需要 COOP 和 COEP 响应头，并通过 HTTPS 或本机访问",
  ],
} as const satisfies Words;

export type Key = keyof typeof WORDS;
export type Values = Readonly<Record<string, string | number>>;

let current: Language = "en";

export function language(): Language {
  return current;
}

/** The first language that the address or the browser wants and the page has. */
export function wanted(address: string, browser: readonly string[]): Language {
  const choice = new URL(address).searchParams.get("lang");
  const named = [choice ?? "", ...browser].map((each) => each.slice(0, 2).toLowerCase());
  return named.find((each): each is Language => each in LANGUAGES) ?? "en";
}

export function speak(which: Language): void {
  current = which;
}

/** A sentence in the language that is spoken. */
export function t(key: Key, values: Values = {}): string {
  const said: string = current === "en" ? key : WORDS[key][current === "de" ? 0 : 1];
  return said.replace(/\{(\w+)\}/g, (all, name: string) => String(values[name] ?? all));
}

/** Whether there is such a sentence. */
export function known(words: string): words is Key {
  return Object.hasOwn(WORDS, words);
}

export function number(value: number, decimals = 0): string {
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return value.toLocaleString(current, { ...digits, useGrouping: false });
}

/** Puts the sentences of the document into that language: those of elements with `data-t`, whose contents are
 * the key, and names of elements with `data-t-name`. */
export function translate(): void {
  document.documentElement.lang = current;
  for (const each of document.querySelectorAll<HTMLElement>("[data-t]")) {
    each.dataset["t"] ||= (each.textContent ?? "").replace(/\s+/g, " ").trim();
    const key = each.dataset["t"];
    if (known(key)) each.textContent = t(key);
  }
  for (const each of document.querySelectorAll<HTMLElement>("[data-t-name]")) {
    const key = each.dataset["tName"] ?? "";
    if (known(key)) each.ariaLabel = t(key);
  }
}
