package redact

import (
	"net/url"
	"reflect"
	"regexp"
	"strings"
)

// action redacts the value of one field in place. mark replaces the hidden values.
type action func(v reflect.Value, mark string)

// hide replaces a text, each text of a list, and each value of a map by the mark.
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

// hideArguments hides a command, except its first element, the program.
func hideArguments(v reflect.Value, mark string) { hideFrom(1, v, mark) }

func hideFrom(first int, v reflect.Value, mark string) {
	for i := first; i < v.Len(); i++ {
		v.Index(i).SetString(mark)
	}
}

// drop removes the field.
func drop(v reflect.Value, _ string) { v.SetZero() }

// hideLogin hides the part before the @ of a host.
func hideLogin(v reflect.Value, mark string) {
	if i := strings.LastIndexByte(v.String(), '@'); i >= 0 {
		v.SetString(mark + v.String()[i:])
	}
}

// loginInPath matches a login at another place than a URL's: after a scheme with a single slash, or in the second URL
// of a list.
var loginInPath = regexp.MustCompile("(//|[^/]:)[^/]*@")

// hideInURL hides the login, parameters, query and fragment of a URL or of a path on a server.
func hideInURL(v reflect.Value, mark string) { v.SetString(redactURL(v.String(), mark)) }

// redactURL hides all of a text that can't be parsed: git@host:path isn't a URL, nor is one with a bad escape.
func redactURL(s, mark string) string {
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" {
		return mark
	}
	if u.User != nil {
		scheme, rest, _ := strings.Cut(s, "//")
		host, path, slash := strings.Cut(rest, "/")
		s = scheme + "//" + mark + host[strings.LastIndexByte(host, '@'):]
		if slash {
			s += "/" + path
		}
	}
	if u.Port() != "" && strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		// A password with a delimiter may start with digits, which are then parsed as a port: https://user:12/x@host.
		return mark
	}
	if loginInPath.MatchString(u.Path) || u.Scheme != "" && u.Host == "" && strings.Contains(u.Path, "@") {
		return mark
	}
	if begin := strings.IndexAny(s, "?#;"); begin >= 0 && begin+1 < len(s) {
		s = s[:begin] + "?" + mark
	}
	return s
}
