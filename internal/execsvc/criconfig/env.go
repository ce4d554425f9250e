package criconfig

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// environment is the container's environment in the order of the pod, and the same by name for expansion. A variable sees those
// before it.
func environment(c *v1.Container) ([]*runtimeapi.KeyValue, map[string]string, error) {
	if len(c.EnvFrom) > 0 {
		return nil, nil, fmt.Errorf("envFrom isn't supported yet")
	}
	list := make([]*runtimeapi.KeyValue, 0, len(c.Env))
	values := make(map[string]string, len(c.Env))
	for _, e := range c.Env {
		if e.ValueFrom != nil {
			return nil, nil, fmt.Errorf("environment variable %s: valueFrom.%s isn't supported yet", e.Name, valueSource(e.ValueFrom))
		}
		value := expand(e.Value, values)
		values[e.Name] = value
		list = append(list, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(value)})
	}
	return list, values, nil
}

// valueSource is the name of the field that is set.
func valueSource(from *v1.EnvVarSource) string {
	switch {
	case from.FieldRef != nil:
		return "fieldRef"
	case from.ResourceFieldRef != nil:
		return "resourceFieldRef"
	case from.ConfigMapKeyRef != nil:
		return "configMapKeyRef"
	case from.SecretKeyRef != nil:
		return "secretKeyRef"
	default:
		return "fileKeyRef"
	}
}

func expandAll(texts []string, values map[string]string) []string {
	var expanded []string
	for _, t := range texts {
		expanded = append(expanded, expand(t, values))
	}
	return expanded
}

// expand replaces each $(NAME) by its value. As Kubernetes has it, a name without a value stays as it is written, $$ is a plain
// $ (so $$(NAME) comes out as $(NAME)), and any other $ means itself.
func expand(text string, values map[string]string) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 || at == len(text)-1 {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:at])
		text = text[at+1:]
		switch end := strings.IndexByte(text, ')'); {
		case text[0] == '$':
			out.WriteByte('$')
			text = text[1:]
		case text[0] == '(' && end > 0:
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
