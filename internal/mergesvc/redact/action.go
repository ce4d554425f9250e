package redact

import (
	"net/url"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
)

// action redacts the value of one field in place, with the mark in the place of what it hides.
type action func(v reflect.Value, mark string)

// hide puts the mark in the place of a text, of each text of a list, and of each value of a map.
func hide(v reflect.Value, mark string) {
	switch v.Kind() {
	case reflect.String:
		if v.Len() > 0 {
			v.SetString(mark)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			hide(v.Elem(), mark)
		}
	case reflect.Slice:
		hideFrom(0, v, mark)
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf(mark).Convert(v.Type().Elem()))
		}
	default:
		drop(v, mark)
	}
}

// hideArguments hides a command but for its first element, the program.
func hideArguments(v reflect.Value, mark string) { hideFrom(1, v, mark) }

func hideFrom(first int, v reflect.Value, mark string) {
	for i := first; i < v.Len(); i++ {
		v.Index(i).SetString(mark)
	}
}

// drop leaves the field out.
func drop(v reflect.Value, _ string) { v.SetZero() }

// hideLogin hides what stands before the @ of a host.
func hideLogin(v reflect.Value, mark string) {
	if i := strings.LastIndexByte(v.String(), '@'); i >= 0 {
		v.SetString(mark + v.String()[i:])
	}
}

// hideInURL hides the login, query and fragment of a URL or of a path on a server.
func hideInURL(v reflect.Value, mark string) { v.SetString(redactURL(v.String(), mark)) }

// redactURL hides the whole of a text that isn't understood: git@host:path isn't a URL, nor is one with a bad escape.
func redactURL(s, mark string) string {
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" {
		return mark
	}
	if u.RawQuery != "" || u.Fragment != "" {
		s = s[:strings.IndexAny(s, "?#")] + "?" + mark
	}
	if u.User != nil {
		scheme, rest, _ := strings.Cut(s, "//")
		host, path, slash := strings.Cut(rest, "/")
		s = scheme + "//" + mark + host[strings.LastIndexByte(host, '@'):]
		if slash {
			s += "/" + path
		}
	}
	return s
}

// maxAnnotation is the length in bytes of the longest annotation that is shown. Longer ones are seldom written for people.
const maxAnnotation = 256

// hideDocuments hides the annotations that hold a manifest or another document.
func hideDocuments(v reflect.Value, mark string) {
	for key, value := range v.Interface().(map[string]string) {
		if key == v1.LastAppliedConfigAnnotation || isDocument(value) {
			v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(mark))
		}
	}
}

// isDocument tells whether a text is an object or a list in YAML, of which JSON is a part, or is too long to look. More than one
// line is a document of some kind. What looks like one and is damaged counts as one.
func isDocument(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) > maxAnnotation || strings.ContainsAny(text, "\r\n") {
		return true
	}
	// A node, unlike a value, isn't expanded: an annotation can't be a YAML bomb.
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return strings.ContainsAny(text, "{[:")
	}
	return len(doc.Content) > 0 && doc.Content[0].Kind != yaml.ScalarNode
}
