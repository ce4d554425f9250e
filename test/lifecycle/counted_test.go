package lifecycle

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// counted checks the lines of the command count.
type counted struct {
	first, last, end int
	// rest is set if the first file begins with the rest of a line: containerd may divide one between two files.
	rest  bool
	wrong string
}

// add adds a line without its end.
func (c *counted) add(line string) {
	if end, ok := strings.CutPrefix(line, "last "); ok {
		c.end, _ = strconv.Atoi(end)
		return
	}
	n, err := strconv.Atoi(strings.TrimRight(line, " "))
	switch {
	case c.first == 0 && !c.rest && len(line) < lineLength:
		c.rest = true
		return
	case c.wrong != "":
	case err != nil || len(line) != lineLength:
		c.wrong = fmt.Sprintf("after %d follows %q", c.last, line)
	case c.first != 0 && n != c.last+1:
		c.wrong = fmt.Sprintf("after %d follows %d", c.last, n)
	}
	if c.first == 0 {
		c.first = n
	}
	c.last = n
}

func (c *counted) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		c.add(lines.Text())
	}
	return lines.Err()
}
