package http

import "net/http"

const (
	// maxValidator is the most bytes of an ETag that is sent back.
	maxValidator = 1 << 10
	// maxConditional is how many requests in a row are conditional.
	maxConditional = 9
)

// validator is the ETag by which a server tells that a body is still the one that it sent. The empty one stands for no body.
// Last-Modified isn't one: a second change within a second doesn't move it, and one back to an older file moves it back.
type validator string

func validatorOf(h http.Header) validator {
	etag := h.Get("ETag")
	if len(etag) > maxValidator {
		return ""
	}
	return validator(etag)
}

// setOn makes a request conditional, if there is a body to be told of.
func (v validator) setOn(h http.Header) {
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range", "Range"} {
		h.Del(name)
	}
	if v != "" {
		h.Set("If-None-Match", string(v))
	}
}
