package http

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/podstream/podstream/internal/manifest"
)

// readBody reads the whole body of a response, decompressed. It returns an error if the body is cut off or too large,
// or can't be one of pods.
func readBody(resp *http.Response) (body, error) {
	if resp.ContentLength > manifest.MaxSize {
		return body{}, errTooLarge
	}
	zipped, err := isZipped(resp.Header)
	if err != nil {
		return body{}, err
	}
	var r io.Reader = &capped{resp.Body, manifest.MaxSize}
	if zipped {
		z, err := gzip.NewReader(r)
		if errors.Is(err, io.EOF) {
			return body{}, errEmpty
		}
		if err != nil {
			return body{}, err
		}
		r = &capped{z, manifest.MaxSize}
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return body{}, err
	}
	visible := bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
	switch {
	case len(visible) == 0:
		return body{}, errEmpty
	case visible[0] == '<':
		return body{}, errHTML
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return body{
		text: text, isJSON: json.Valid(visible), endless: !zipped && endless(resp),
		html: mediaType == "text/html" || mediaType == "application/xhtml+xml",
	}, nil
}

// body is the body of a response.
type body struct {
	text []byte
	// isJSON is set if the text is one value of JSON, and therefore complete.
	isJSON bool
	// endless is set if the length of the text isn't announced.
	endless bool
	// html is set if the server declares it as HTML.
	html bool
}

// isZipped reports whether a body is compressed. Other encodings that some stores and proxies name leave the body as
// it is.
func isZipped(h http.Header) (bool, error) {
	zipped := false
	for encoding := range strings.SplitSeq(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		switch strings.ToLower(strings.TrimSpace(encoding)) {
		case "", "identity", "utf-8", "utf8", "aws-chunked":
		case "gzip", "x-gzip":
			if zipped {
				return false, errEncoding
			}
			zipped = true
		default:
			return false, errEncoding
		}
	}
	return zipped, nil
}

// endless reports whether only the end of the connection shows where the body ends.
func endless(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// capped is a reader that returns an error once more than left bytes were read.
type capped struct {
	io.Reader
	left int
}

// Read is part of io.Reader.
func (c *capped) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.left -= n; c.left < 0 {
		return n, errTooLarge
	}
	return n, err
}
