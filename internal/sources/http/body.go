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

// readBody reads the whole body of an answer, decompressed. It fails if the body is cut off or too large, or can't be one of pods.
func readBody(resp *http.Response) ([]byte, error) {
	if resp.ContentLength > manifest.MaxSize {
		return nil, errTooLarge
	}
	var r io.Reader = &capped{resp.Body, manifest.MaxSize}
	encoding := strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ","))
	switch encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(r)
		if errors.Is(err, io.EOF) {
			return nil, errEmpty
		}
		if err != nil {
			return nil, err
		}
		r = &capped{z, manifest.MaxSize}
	default:
		return nil, fault("the body has an encoding other than gzip")
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	switch mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case len(text) == 0:
		return nil, errEmpty
	case mediaType == "text/html", mediaType == "application/xhtml+xml", text[0] == '<':
		return nil, errHTML
	case endless(resp) && !strings.HasSuffix(encoding, "gzip") && !json.Valid(text):
		return nil, errEndless
	}
	return body, nil
}

// endless tells whether nothing but the end of the connection shows where the body ends.
func endless(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// capped is a reader that fails once more than left bytes were read.
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
