package hostiletext

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// list is a JSON array of objects with a name, and a text or, if it isn't UTF-8, its base64.
//
//go:embed testdata/strings.json
var list []byte

// String is a hostile string, with a name for messages of tests.
type String struct {
	Name, Text string
	// Base64 is a text that isn't UTF-8. Nil: Text has it.
	Base64 []byte
}

// Named returns the corpus.
func Named() []String {
	var out []String
	if err := json.Unmarshal(list, &out); err != nil {
		panic(fmt.Sprintf("hostiletext: testdata/strings.json: %v", err))
	}
	for i := range out {
		if out[i].Base64 != nil {
			out[i].Text = string(out[i].Base64)
		}
	}
	return out
}

// Strings returns the texts of the corpus. Some aren't UTF-8.
func Strings() []string {
	var out []string
	for _, s := range Named() {
		out = append(out, s.Text)
	}
	return out
}
