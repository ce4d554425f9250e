package manifestplace

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxElements bounds a path.
const maxElements = 64

// elements returns the elements of a field's path, as Kubernetes writes it: "spec.containers[0].image",
// "metadata.annotations[example.com/a]".
func elements(field string) []string {
	var out []string
	for len(field) > 0 && len(out) < maxElements {
		switch field[0] {
		case '.':
			field = field[1:]
		case '[':
			end := strings.IndexByte(field, ']')
			if end < 0 {
				return append(out, field[1:])
			}
			out, field = append(out, strings.Trim(field[1:end], `"`)), field[end+1:]
		default:
			end := strings.IndexAny(field, ".[")
			if end < 0 {
				end = len(field)
			}
			out, field = append(out, field[:end]), field[end:]
		}
	}
	return out
}

// lookUp follows a path as far as it exists. key is nil for the root, and for an item of a list.
func lookUp(value *yaml.Node, path []string) (key, found *yaml.Node) {
	for i, element := range path {
		if value.Kind == yaml.AliasNode && value.Alias != nil {
			value = value.Alias
		}
		switch value.Kind {
		case yaml.MappingNode:
			k, v := member(value, element, path[i:])
			if k == nil {
				return key, value
			}
			key, value = k, v
		case yaml.SequenceNode:
			index, err := strconv.Atoi(element)
			if err != nil || index < 0 || index >= len(value.Content) {
				return key, value
			}
			key, value = nil, value.Content[index]
		default:
			return key, value
		}
	}
	return key, value
}

// member returns a member of a mapping. A key with dots stands in a path as it is, so the longest key that fits counts.
func member(mapping *yaml.Node, element string, rest []string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == element {
			// Of a key that is set twice, the last one counts.
			key, value = mapping.Content[i], mapping.Content[i+1]
		}
	}
	if key != nil {
		return key, value
	}
	whole := strings.Join(rest, ".")
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if k := mapping.Content[i]; strings.Contains(k.Value, ".") && strings.HasPrefix(whole, k.Value) {
			return k, mapping.Content[i+1]
		}
	}
	return nil, nil
}
