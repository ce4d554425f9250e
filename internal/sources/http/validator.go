package http

import "net/http"

const (
	// maxValidator bounds an ETag that is sent back, in bytes.
	maxValidator = 1 << 10
	// maxConditional is how many requests in a row are conditional.
	maxConditional = 9
)

// validator is the ETag by which a server recognizes that a body is unchanged. The empty one stands for no body.
// Last-Modified isn't used: a second change within a second doesn't move it, and a change to an older file moves it
// back.
type validator string

func validatorOf(h http.Header) validator {
	etag := h.Get("ETag")
	if len(etag) > maxValidator {
		return ""
	}
	return validator(etag)
}

// setOn makes a request conditional, if there is a body.
func (v validator) setOn(h http.Header) {
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range", "Range"} {
		h.Del(name)
	}
	if v != "" {
		h.Set("If-None-Match", string(v))
	}
}
