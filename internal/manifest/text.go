package manifest

import "bytes"

// marksOutsideText is countMarks without the text of block scalars and of quoted values. It reads only the simplest
// lines of YAML: a key followed by nothing, a plain value, a quoted value or a block scalar. Every parser agrees on
// where these begin and end. From the first other line on, everything is counted.
func marksOutsideText(data []byte) int {
	for _, lineBreak := range []string{"\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(data, []byte(lineBreak)) {
			return countMarks(data)
		}
	}
	if bytes.Count(data, []byte("\r")) != bytes.Count(data, []byte("\r\n")) {
		return countMarks(data)
	}
	count := 0
	for len(data) > 0 {
		head, size := simpleLine(data)
		if size == 0 {
			return count + countMarks(data)
		}
		count += countMarks(data[:head])
		data = data[size:]
	}
	return count
}

// simpleLine reads the first line, and the lines of the text that begins in it. head is how many of its bytes aren't
// text, and size is its size. A size of zero means that the line isn't a simple one.
func simpleLine(data []byte) (head, size int) {
	size = lineSize(data)
	line := bytes.TrimRight(data[:size], " \r\n")
	column := leadingSpaces(line)
	if column == len(line) || line[column] == '#' {
		return size, size
	}
	for bytes.HasPrefix(line[column:], []byte("- ")) {
		column += 2 + leadingSpaces(line[column+2:])
	}
	value := keySize(line[column:])
	if value == 0 {
		if startsPlain(line[column:]) && column > 0 {
			return size, size
		}
		return 0, 0
	}
	value += column
	value += leadingSpaces(line[value:])
	switch rest := string(line[value:]); {
	case rest == "", rest == "{}", rest == "[]", startsPlain(line[value:]):
		return size, size
	case rest == "|", rest == "|-", rest == "|+", rest == ">", rest == ">-", rest == ">+":
		text := blockSize(data[size:], column)
		if text < 0 {
			return 0, 0
		}
		return size, size + text
	case rest[0] == '"', rest[0] == '\'':
		text := quotedSize(data[value:])
		if text == 0 {
			return 0, 0
		}
		end := value + text
		size = end + lineSize(data[end:])
		if len(bytes.TrimRight(data[end:size], " \r\n")) > 0 {
			return 0, 0
		}
		return value, size
	}
	return 0, 0
}

// lineSize returns the size of the first line with its end.
func lineSize(data []byte) int {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1
	}
	return len(data)
}

func leadingSpaces(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }

// isWordChar reports whether a character has no meaning in YAML anywhere.
func isWordChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '/'
}

// startsPlain reports whether a text begins as a plain scalar.
func startsPlain(text []byte) bool { return len(text) > 0 && isWordChar(text[0]) }

// keySize returns the size of the key and its colon at the start of a line, or zero if there is no simple key.
func keySize(line []byte) int {
	i := 0
	for i < len(line) && (isWordChar(line[i]) || i > 0 && line[i] == '-') {
		i++
	}
	if i == 0 || i == len(line) || line[i] != ':' || i+1 < len(line) && line[i+1] != ' ' {
		return 0
	}
	return i + 1
}

// blockSize returns the size of a block scalar's lines. column is the column of its key. It is negative if the size
// can't be determined easily.
func blockSize(data []byte, column int) int {
	size, indent, blank := 0, -1, 0
	for size < len(data) {
		n := lineSize(data[size:])
		line := bytes.TrimRight(data[size:size+n], "\r\n")
		spaces := leadingSpaces(line)
		switch {
		case spaces == len(line):
			blank = max(blank, spaces)
		case indent < 0 && spaces <= column:
			return size
		case indent < 0 && blank > spaces:
			return -1
		case indent < 0:
			indent = spaces
		case spaces < indent:
			return size
		}
		size += n
	}
	return size
}

// quotedSize returns the size of the quoted scalar that data begins with, or zero if it doesn't end.
func quotedSize(data []byte) int {
	quote := data[0]
	for i := 1; i < len(data); i++ {
		switch {
		case quote == '"' && data[i] == '\\':
			i++
		case data[i] != quote:
		case quote == '\'' && i+1 < len(data) && data[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return 0
}
