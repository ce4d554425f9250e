package manifest

import (
	"bytes"
	"sync"
	"unicode/utf8"
)

const (
	// maxMarks is how many characters of a YAML document may be ones that begin a value: each value takes a few
	// hundred bytes until the document is decoded. Text in quotes and in block scalars is counted too, unless it is
	// certainly text: see marksOutsideText.
	maxMarks = 1 << 18
	// maxJSONValues is the maximum weight of the values and keys of a JSON document: each takes 64 bytes until the
	// document is decoded, and an object that isn't empty weighs as much as mapWeight of them. A PodList of MaxSize,
	// with managedFields, has fewer.
	maxJSONValues, mapWeight = 3 << 20, 6
	// maxBeside is the size in bytes up to which an origin is decoded concurrently with others.
	maxBeside = 256 << 10
)

// large is held while a large origin is decoded. Sources and DiffManifests read at the same time; memory is needed
// for one.
var large sync.Mutex

// waitTurn waits until an origin of that size may be decoded. end must be called after that.
func waitTurn(size int) (end func()) {
	if size <= maxBeside {
		return func() {}
	}
	large.Lock()
	return large.Unlock
}

// checkMarks refuses a YAML document before it is parsed: its syntax tree takes two hundred bytes for a value of two
// bytes of text.
func checkMarks(data []byte) error {
	n := countMarks(data)
	if n > maxMarks {
		n = marksOutsideText(data)
	}
	if n > maxMarks {
		return problemf("it has too many values: %d characters that may begin one (of \",:?[{\" and \"- \"); the maximum of one document is %d",
			n, maxMarks)
	}
	return nil
}

// countMarks returns at least half the number of the document's values: a value follows a mark, or is the key before
// a ":".
func countMarks(data []byte) int {
	count := 0
	for i, c := range data {
		switch c {
		case ',', ':', '?', '[', '{':
			count++
		case '-':
			// In addition to ASCII's, YAML 1.1 has the line breaks U+0085, U+2028 and U+2029: any byte of them counts
			// as a break.
			if i+1 == len(data) || data[i+1] <= ' ' || data[i+1] >= utf8.RuneSelf {
				count++
			}
		}
	}
	return count
}

// checkJSONValues refuses a JSON document whose values exceed maxJSONValues. data is valid JSON.
func checkJSONValues(data []byte) error {
	weight, quoted := 1, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',' || c == ':':
			weight++
		case c == '[':
			weight += 2
		case c == '{' && bytes.HasPrefix(bytes.TrimLeft(data[i+1:], " \t\r\n"), []byte("}")):
			weight++
		case c == '{':
			weight += mapWeight
		}
	}
	if weight > maxJSONValues {
		return problemf("it has too many values: they weigh %d, an object as much as %d other ones; the maximum of one document is %d",
			weight, mapWeight, maxJSONValues)
	}
	return nil
}
