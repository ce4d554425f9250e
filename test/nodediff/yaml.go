package nodediff

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// parse parses the fields of a KubeletConfiguration, in which DIR stands for the agent's directory.
func parse(text, dir string) (map[string]any, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "DIR", dir)), &fields); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return fields, nil
}

// render is the inverse of parse.
func render(fields map[string]any) ([]byte, error) { return yaml.Marshal(fields) }

// fieldsOf returns the fields of a value, by the names that JSON gives them.
func fieldsOf(v any) (Fields, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	fields := Fields{}
	flatten(fields, "", tree)
	return fields, nil
}

func flatten(into Fields, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			flatten(into, strings.TrimPrefix(path+"."+key, "."), value)
		}
		if len(v) == 0 {
			into[path] = "{}"
		}
	case []any:
		for i, value := range v {
			flatten(into, fmt.Sprintf("%s[%d]", path, i), value)
		}
	default:
		into[path] = fmt.Sprint(v)
	}
}
