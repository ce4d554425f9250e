package expression

import (
	"errors"
	"fmt"
	"strings"
)

// Columns are kubectl's custom columns.
type Columns struct {
	// Headers are the names of the columns.
	Headers []string
	paths   []*Path
}

// ParseColumns parses NAME:PATH,... as kubectl does.
func ParseColumns(text string) (*Columns, error) {
	if text == "" {
		return nil, errors.New("want NAME:PATH,..., such as NAME:.metadata.name")
	}
	c := &Columns{}
	for column := range strings.SplitSeq(text, ",") {
		name, path, ok := strings.Cut(column, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("column %q: want NAME:PATH", column)
		}
		parsed, err := ParsePath(path)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
		c.Headers, c.paths = append(c.Headers, name), append(c.paths, parsed)
	}
	return c, nil
}

// Row returns the cells of an item. A field that is missing is <none>, and several values have commas between.
func (c *Columns) Row(item any) ([]string, error) {
	var cells []string
	for _, path := range c.paths {
		values, err := path.Values(item)
		if err != nil {
			return nil, err
		}
		var texts []string
		for _, v := range values {
			texts = append(texts, fmt.Sprint(v))
		}
		if len(texts) == 0 {
			texts = []string{"<none>"}
		}
		cells = append(cells, strings.Join(texts, ","))
	}
	return cells, nil
}
