package expression

import (
	"encoding/json"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Document returns a value as expressions see it: maps, lists, texts, booleans and numbers.
func Document(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode for output: %w", err)
	}
	var doc any
	// Unlike encoding/json it keeps whole numbers whole.
	if err := utiljson.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("encode for output: %w", err)
	}
	return doc, nil
}

// Items returns the items of a document that is a list: those of its "items", or of its only field. Another document is its
// own only item.
func Items(doc any) []any {
	fields, ok := doc.(map[string]any)
	if !ok {
		return []any{doc}
	}
	if items, ok := fields["items"].([]any); ok {
		return items
	}
	if len(fields) == 1 {
		for _, value := range fields {
			if items, ok := value.([]any); ok {
				return items
			}
		}
	}
	return []any{doc}
}

// Name returns the name of an item: its metadata.name, or its name. Empty: it has none.
func Name(item any) string {
	fields, ok := item.(map[string]any)
	if !ok {
		return ""
	}
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		fields = metadata
	}
	name, _ := fields["name"].(string)
	return name
}
