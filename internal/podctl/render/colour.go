package render

import (
	"bytes"
	"strconv"
	"strings"
)

// maxColour is the maximum length of a sequence that sets colours, in bytes.
const maxColour = 40

// colour returns the length of the sequence that text, which starts with an escape character, sets colours by, and whether
// the sequence resets them. ok is false if there is none. A length of zero means that it may be one, but is incomplete.
//
// A sequence is ESC [ NUMBER;... m with the numbers of colours, bold, italic and underlined text. Others are refused:
// those of concealed and blinking text too.
func colour(text []byte) (n int, reset, ok bool) {
	const introducer = "\x1b["
	if len(text) < len(introducer) {
		return 0, false, strings.HasPrefix(introducer, string(text))
	}
	if !bytes.HasPrefix(text, []byte(introducer)) {
		return 0, false, false
	}
	for i := len(introducer); i < maxColour; i++ {
		switch {
		case i == len(text):
			return 0, false, true
		case text[i] == 'm':
			reset, ok = allowedColour(string(text[len(introducer):i]))
			return i + 1, reset, ok
		case text[i] != ';' && (text[i] < '0' || text[i] > '9'):
			return 0, false, false
		}
	}
	return 0, false, false
}

// allowedColour reports whether the numbers are allowed, and whether the last one resets the colours.
func allowedColour(list string) (reset, ok bool) {
	var numbers []int
	for word := range strings.SplitSeq(list, ";") {
		n, err := strconv.Atoi("0" + word) // An empty one means 0.
		if err != nil || n > 255 {
			return false, false
		}
		numbers = append(numbers, n)
	}
	for len(numbers) > 0 {
		used := 1
		switch n := numbers[0]; {
		case n == 38, n == 48:
			// 38;5;COLOUR or 38;2;RED;GREEN;BLUE
			switch {
			case len(numbers) >= 3 && numbers[1] == 5:
				used = 3
			case len(numbers) >= 5 && numbers[1] == 2:
				used = 5
			default:
				return false, false
			}
		case n <= 4, n == 7, n >= 21 && n <= 24, n == 27, n >= 30 && n <= 49, n >= 90 && n <= 107:
		default:
			return false, false
		}
		reset = numbers[0] == 0
		numbers = numbers[used:]
	}
	return reset, true
}
