package sourceconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation"
)

// headers are the values of --manifest-url-header.
type headers struct {
	// common are for each URL of the flags.
	common map[string][]string
	named  map[string]map[string][]string
}

const (
	// An invalid name of a header may be a token in the wrong place.
	badHeaderName  = "this can't be the name of a header (it isn't shown, as it may be a credential)"
	badHeaderValue = "the value of %s can't be that of a header"
	noHeaderValue  = "a header has no value; want Name: [value]"
)

// parseHeaders parses [NAME=]KEY:VALUE[,KEY:VALUE]. An error quotes no value, and no invalid name, but gives its
// number.
func parseHeaders(values []string) (*headers, error) {
	h := &headers{common: map[string][]string{}, named: map[string]map[string][]string{}}
	for i, value := range values {
		wrong := func(reason string) error { return fmt.Errorf("--manifest-url-header: value %d: %s", i+1, reason) }
		into := h.common
		key, _, _ := strings.Cut(value, ":")
		// The name of a header can't have an equals sign.
		if name, _, ok := strings.Cut(key, "="); ok {
			if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
				return nil, wrong("what stands before the equals sign can't be the name of a source")
			}
			value = value[len(name)+1:]
			if into = h.named[name]; into == nil {
				into = map[string][]string{}
				h.named[name] = into
			}
		}
		for pair := range strings.SplitSeq(value, ",") {
			key, text, ok := strings.Cut(pair, ":")
			key, text = strings.TrimSpace(key), strings.TrimSpace(text)
			switch {
			case pair == "":
			case !ok:
				return nil, wrong("want [name=]key:value, with commas between several")
			case !httpguts.ValidHeaderFieldName(key):
				return nil, wrong(badHeaderName)
			case !httpguts.ValidHeaderFieldValue(text):
				return nil, wrong(fmt.Sprintf(badHeaderValue, key))
			default:
				into[key] = append(into[key], text)
			}
		}
	}
	return h, nil
}

// giveNamed gives the headers with a name to the URL of that name: they replace those of the same key. It returns
// errors for the names that no URL has.
func (h *headers) giveNamed(urls []draft) error {
	var absent []error
	for _, name := range slices.Sorted(maps.Keys(h.named)) {
		i := slices.IndexFunc(urls, func(d draft) bool { return d.short == name && name != "" })
		if i < 0 {
			absent = append(absent, fmt.Errorf("--manifest-url-header: there is no manifest URL of the name %q", name))
			continue
		}
		merged := http.Header{}
		for _, from := range []map[string][]string{urls[i].headers, h.named[name]} {
			for _, key := range slices.Sorted(maps.Keys(from)) {
				merged[http.CanonicalHeaderKey(key)] = from[key]
			}
		}
		urls[i].headers = merged
	}
	return errors.Join(absent...)
}

// canonical returns a draft's headers under their canonical names; two spellings of one name are combined. Its errors
// show no invalid name, but its place.
func canonical(d draft) (http.Header, []error) {
	if len(d.headers) == 0 {
		return nil, nil
	}
	out := http.Header{}
	var mistakes []error
	for _, key := range slices.Sorted(maps.Keys(d.headers)) {
		wrong := func(reason string) {
			if d.atHeader != nil {
				mistakes = append(mistakes, d.atHeader(key, reason))
			} else {
				mistakes = append(mistakes, d.at("headers", reason))
			}
		}
		switch values := d.headers[key]; {
		case values == nil:
			wrong(noHeaderValue)
		case !httpguts.ValidHeaderFieldName(key):
			wrong(badHeaderName)
		case !slices.ContainsFunc(values, func(value string) bool { return !httpguts.ValidHeaderFieldValue(value) }):
			out[http.CanonicalHeaderKey(key)] = append(out[http.CanonicalHeaderKey(key)], values...)
		default:
			wrong(fmt.Sprintf(badHeaderValue, key))
		}
	}
	return out, mistakes
}
