package sourceconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// headers are the values of --manifest-url-header.
type headers struct {
	// common are for each URL that the flags are for.
	common map[string][]string
	named  map[string]map[string][]string
}

// parseHeaders understands [NAME=]KEY:VALUE[,KEY:VALUE]. No value is ever quoted in an error.
func parseHeaders(values []string) (*headers, error) {
	h := &headers{common: map[string][]string{}, named: map[string]map[string][]string{}}
	for i, value := range values {
		into := h.common
		key, _, _ := strings.Cut(value, ":")
		// The name of a header can't hold an equals sign.
		if name, _, ok := strings.Cut(key, "="); ok {
			value = value[len(name)+1:]
			if into = h.named[name]; into == nil {
				into = map[string][]string{}
				h.named[name] = into
			}
		}
		for pair := range strings.SplitSeq(value, ",") {
			key, text, ok := strings.Cut(pair, ":")
			switch {
			case pair == "":
			case !ok:
				return nil, fmt.Errorf("--manifest-url-header: value %d: want [name=]key:value, with commas between several", i+1)
			default:
				key = strings.TrimSpace(key)
				into[key] = append(into[key], strings.TrimSpace(text))
			}
		}
	}
	return h, nil
}

// giveNamed gives the headers with a name to the URL of that name: they replace those of the same key. It returns what is wrong with
// the names that no URL has.
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

// canonical are the headers under their canonical names; two ways to write one name add up.
func canonical(given map[string][]string) (http.Header, error) {
	if len(given) == 0 {
		return nil, nil
	}
	out := http.Header{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !httpguts.ValidHeaderFieldName(key) {
			return nil, fmt.Errorf("%q can't be the name of a header", key)
		}
		for _, value := range given[key] {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("the value of %s can't be that of a header", key)
			}
			out.Add(key, value)
		}
	}
	return out, nil
}
