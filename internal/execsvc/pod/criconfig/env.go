package criconfig

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// EnvVar is a variable of a container's environment.
type EnvVar struct{ Name, Value string }

// environment converts the list to the CRI's form, and to a map: of a name that occurs twice the last one counts.
func environment(list []EnvVar) ([]*runtimeapi.KeyValue, map[string]string) {
	out, values := make([]*runtimeapi.KeyValue, 0, len(list)), make(map[string]string, len(list))
	for _, e := range list {
		out = append(out, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(e.Value)})
		values[e.Name] = e.Value
	}
	return out, values
}

// expandAll expands each text.
func expandAll(texts []string, values map[string]string) []string {
	var expanded []string
	for _, t := range texts {
		expanded = append(expanded, Expand(t, values))
	}
	return expanded
}

// Expand replaces each $(NAME) by its value. As in Kubernetes, a name without a value stays as written, $$ becomes $
// (so $$(NAME) becomes $(NAME)), and any other $ stays.
func Expand(text string, values map[string]string) string {
	var out strings.Builder
	closed := true // false once no ")" follows: it isn't searched again
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 || at == len(text)-1 {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:at])
		text = text[at+1:]
		end := -1
		if text[0] == '(' && closed {
			end = strings.IndexByte(text, ')')
			closed = end >= 0
		}
		switch {
		case text[0] == '$':
			out.WriteByte('$')
			text = text[1:]
		case end > 0:
			name := text[1:end]
			if value, ok := values[name]; ok {
				out.WriteString(value)
			} else {
				out.WriteString("$(" + name + ")")
			}
			text = text[end+1:]
		default:
			out.WriteByte('$')
		}
	}
}
