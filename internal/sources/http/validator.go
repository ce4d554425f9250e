package http

import "net/http"

const (
	// maxValidator is the most bytes of an ETag that is sent back.
	maxValidator = 1 << 10
	// maxConditional is how many requests in a row are conditional.
	maxConditional = 9
)

// validator is by what a server tells that a body is still the one that it sent. The zero one stands for no body.
type validator struct {
	// etag is an ETag, modified the value of Last-Modified, which is used only where there is no ETag.
	etag, modified string
}

func validatorOf(h http.Header) validator {
	v := validator{etag: h.Get("ETag")}
	if v.etag == "" {
		v.modified = h.Get("Last-Modified")
	}
	if len(v.etag) > maxValidator || len(v.modified) > maxValidator {
		return validator{}
	}
	return v
}

// setOn makes a request conditional, if there is a body to be told of.
func (v validator) setOn(h http.Header) {
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range", "Range"} {
		h.Del(name)
	}
	switch {
	case v.etag != "":
		h.Set("If-None-Match", v.etag)
	case v.modified != "":
		h.Set("If-Modified-Since", v.modified)
	}
}
