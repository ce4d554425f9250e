package lifecycle

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
)

// counted checks the lines of the command count.
type counted struct {
	first, last, end int
	// rest is set if the first file begins with the rest of a line: containerd may divide one between two files.
	rest bool
	// part is the first part of a line that containerd has divided.
	part  string
	wrong string
	// begun is called for each line that read reads.
	begun func()
}

// add adds a line without its end.
func (c *counted) add(line string) {
	// The next line is the rest of one that is too short: otherwise both together have another length, or a wrong number.
	divided := c.part != ""
	line, c.part = c.part+line, ""
	if end, ok := strings.CutPrefix(line, "last "); ok {
		c.end, _ = strconv.Atoi(end)
		return
	}
	if c.first != 0 && !divided && len(line) < lineLength {
		c.part = line
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
		c.begun()
	}
	return lines.Err()
}

// TestCounted: a line that containerd has divided at a rotation counts as one; a part of a line that is missing is found.
func TestCounted(t *testing.T) {
	line := func(n int) string { return fmt.Sprintf("%-*d", lineLength, n) }
	for name, test := range map[string]struct {
		lines []string
		last  int
		wrong bool
	}{
		"whole":                 {[]string{line(1), line(2), line(3), "last 3"}, 3, false},
		"divided":               {[]string{line(1), line(2)[:20], line(2)[20:], line(3)}, 3, false},
		"begins with a rest":    {[]string{line(1)[20:], line(2), line(3)}, 3, false},
		"a rest is missing":     {[]string{line(1), line(2)[:20], line(3)}, 1, true},
		"a head is missing":     {[]string{line(1), line(2)[20:], line(3)}, 1, true},
		"a line is missing":     {[]string{line(1), line(3)}, 3, true},
		"a line is there twice": {[]string{line(1), line(2), line(2)}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := counted{begun: func() {}}
			if err := c.read(strings.NewReader(strings.Join(test.lines, "\n"))); err != nil {
				t.Fatal(err)
			}
			if (c.wrong != "") != test.wrong || !test.wrong && c.last != test.last {
				t.Errorf("%+v", c)
			}
		})
	}
}
