package kubeletconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"

	"github.com/podstream/podstream/internal/kubeletconfig/document"
)

// Kind and APIVersion are those of the documents that Merge takes.
const Kind = "KubeletConfiguration"

// APIVersion is the only version of Kind.
var APIVersion = v1beta1.SchemeGroupVersion.String()

// errTogether: each document is valid by itself. The decoder's text isn't shown, as it may quote a secret.
var errTogether = errors.New("the configuration files don't go together")

// Config is the result of all documents.
type Config struct {
	v1beta1.KubeletConfiguration
	// Warnings are unknown fields, and those given twice, with file and line.
	Warnings []string

	from map[string]*document.Document
	set  []string
}

// Merge makes one configuration of the documents of that kind, and ignores others. It makes podconfigd's paths
// absolute: they are relative to the directory of their file. Without documents it returns the zero Config.
func Merge(docs []Document) (*Config, error) {
	cfg := &Config{from: map[string]*document.Document{}}
	merged := []byte("{}")
	var mistakes []error
	for _, d := range docs {
		if d.APIVersion != APIVersion || d.Kind != Kind {
			continue
		}
		if err := cfg.check(d); err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		next, err := patch(merged, d)
		if err != nil {
			mistakes = append(mistakes, d.Mistake(nil, "it can't be merged into the files before it"))
			continue
		}
		merged = next
		for name := range d.Value() {
			cfg.from[name] = d.Document
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(merged, &cfg.KubeletConfiguration); err != nil {
		return nil, errTogether
	}
	var values map[string]any
	if err := json.Unmarshal(merged, &values); err != nil {
		return nil, errTogether
	}
	cfg.set = fieldsSet(&cfg.KubeletConfiguration, values)
	return cfg, nil
}

// check checks one document by itself.
func (c *Config) check(d Document) error {
	var alone v1beta1.KubeletConfiguration
	found := d.Decode(&alone)
	wrong := found.Wrong
	if d.DropIn {
		wrong = append(wrong, found.Doubled...)
	} else {
		c.warn(found.Doubled)
	}
	c.warn(found.Unknown)
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"fileCheckFrequency", alone.FileCheckFrequency.Duration}, {"httpCheckFrequency", alone.HTTPCheckFrequency.Duration}} {
		if f.value < 0 {
			wrong = append(wrong, d.Mistake(document.Field{f.name}, "it must not be less than zero"))
		}
	}
	return errors.Join(append(wrong, headersWithoutValue(d)...)...)
}

// headersWithoutValue finds headers of staticPodURLHeader that are null, as one is that was written without the space
// after its colon. In a drop-in null removes an earlier header, which can only have a valid name.
func headersWithoutValue(d Document) (mistakes []error) {
	headers, _ := d.Value()["staticPodURLHeader"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if headers[name] == nil && (!d.DropIn || !httpguts.ValidHeaderFieldName(name)) {
			mistakes = append(mistakes, d.MistakeIn(document.Field{"staticPodURLHeader"}, name, "a header has no value; want Name: [value]"))
		}
	}
	return document.Few(mistakes)
}

func (c *Config) warn(findings []error) {
	for _, f := range findings {
		c.Warnings = append(c.Warnings, f.Error())
	}
}

// patch merges a document into the previous ones, by the rules of a JSON merge patch.
func patch(before []byte, d Document) ([]byte, error) {
	values := maps.Clone(d.Value())
	if path, ok := values["staticPodPath"].(string); ok {
		values["staticPodPath"] = d.Resolve(path)
	}
	data, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return jsonpatch.MergePatch(before, data)
}

// Mistake returns an error about the value of a field, in the file that set it last.
func (c *Config) Mistake(f document.Field, reason string) error {
	if d := c.from[f[0]]; d != nil {
		return d.Mistake(f, reason)
	}
	return fmt.Errorf("%s: %s", f, reason)
}

// MistakeIn returns an error about a key of a field that is a mapping, without the key, in the file that set the
// field last.
func (c *Config) MistakeIn(f document.Field, key, reason string) error {
	if d := c.from[f[0]]; d != nil {
		return d.MistakeIn(f, key, reason)
	}
	return fmt.Errorf("%s: %s", f, reason)
}

// Set returns the fields that are set, in the order of the type. Fields that are explicitly given their zero value,
// as by tools that write all fields, aren't among them.
func (c *Config) Set() []string { return c.set }

func fieldsSet(cfg *v1beta1.KubeletConfiguration, values map[string]any) []string {
	var set []string
	v := reflect.ValueOf(cfg).Elem()
	for f := range document.Fields(v.Type()) {
		field := v.FieldByIndex(f.Index)
		if ownerOf(f.Name) == 0 || field.IsZero() || f.Type.Kind() == reflect.Struct && isBlank(values[f.Name]) {
			continue
		}
		set = append(set, f.Name)
	}
	return set
}

// isBlank reports whether a value and all below it are zero. False isn't: where it is written, it mostly has a
// meaning.
func isBlank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || v == "0" || v == "0s"
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, below := range v {
			if !isBlank(below) {
				return false
			}
		}
		return true
	}
	return false
}
