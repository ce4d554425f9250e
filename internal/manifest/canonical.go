package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// canonicalize converts JSON as encoding/json writes it, without white space, into the canonical form of the digests:
// members sorted by name, nulls and empty "resources" left out, and with compact every empty object in the outermost
// one. It works on the text, as decoding it into maps would cost more than all the rest of a digest.
func canonicalize(text []byte, compact bool) ([]byte, error) {
	c := canonicalizer{in: text, compact: compact, out: make([]byte, 0, len(text))}
	c.value(0)
	if c.err != nil {
		return nil, c.err
	}
	return c.out, nil
}

// canonicalizer reads in from pos on, and appends to out.
type canonicalizer struct {
	in      []byte
	pos     int
	compact bool
	out     []byte
	members []member
	err     error
}

// member is one member of an object that is being read.
type member struct {
	// name is unquoted. text is the member as it is written, within out.
	name []byte
	text []byte
}

// value copies the value at pos. The outermost is at depth 0.
func (c *canonicalizer) value(depth int) {
	switch c.peek() {
	case '{':
		c.object(depth)
	case '[':
		c.list(depth)
	case '"':
		c.out = append(c.out, c.quoted()...)
	default:
		start := c.pos
		for c.pos < len(c.in) && bytes.IndexByte([]byte(",]}\n"), c.in[c.pos]) < 0 {
			c.pos++
		}
		if c.pos == start {
			c.fail()
		}
		c.out = append(c.out, c.in[start:c.pos]...)
	}
}

func (c *canonicalizer) list(depth int) {
	c.take('[')
	c.out = append(c.out, '[')
	for first := true; c.err == nil && c.peek() != ']'; first = false {
		if !first {
			c.take(',')
			c.out = append(c.out, ',')
		}
		c.value(depth + 1)
	}
	c.take(']')
	c.out = append(c.out, ']')
}

// object appends the members to out, and then sorts them.
func (c *canonicalizer) object(depth int) {
	c.take('{')
	begin, base := len(c.out), len(c.members)
	for first := true; c.err == nil && c.peek() != '}'; first = false {
		if !first {
			c.take(',')
		}
		c.member(depth)
	}
	c.take('}')
	if c.err != nil {
		return
	}
	members := c.members[base:]
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	sorted := make([]byte, 0, len(c.out)-begin+len(members)+2)
	sorted = append(sorted, '{')
	for i, m := range members {
		if i > 0 {
			sorted = append(sorted, ',')
		}
		sorted = append(sorted, m.text...)
	}
	sorted = append(sorted, '}')
	c.members = c.members[:base]
	c.out = append(c.out[:begin], sorted...)
}

func (c *canonicalizer) member(depth int) {
	begin := len(c.out)
	quoted := c.quoted()
	c.out = append(append(c.out, quoted...), ':')
	c.take(':')
	start := len(c.out)
	c.value(depth + 1)
	if c.err != nil {
		return
	}
	name, value := c.unquote(quoted), c.out[start:]
	switch empty := string(value) == "{}"; {
	case string(value) == "null", empty && depth == 0 && c.compact, empty && string(name) == "resources":
		c.out = c.out[:begin]
	default:
		c.members = append(c.members, member{name: name, text: c.out[begin:]})
	}
}

// quoted returns the string at pos, with its quotes.
func (c *canonicalizer) quoted() []byte {
	start := c.pos
	c.take('"')
	for c.pos < len(c.in) && c.in[c.pos] != '"' {
		if c.in[c.pos] == '\\' {
			c.pos++
		}
		c.pos++
	}
	c.take('"')
	if c.err != nil {
		return nil
	}
	return c.in[start:c.pos]
}

func (c *canonicalizer) unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		c.fail()
	}
	return []byte(s)
}

func (c *canonicalizer) peek() byte {
	if c.pos >= len(c.in) {
		c.fail()
		return 0
	}
	return c.in[c.pos]
}

func (c *canonicalizer) take(b byte) {
	if c.peek() != b {
		c.fail()
		return
	}
	c.pos++
}

func (c *canonicalizer) fail() {
	if c.err == nil {
		c.err = fmt.Errorf("unexpected JSON at byte %d of %d", c.pos, len(c.in))
	}
}
