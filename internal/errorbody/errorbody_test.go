package errorbody_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/errorbody"
)

// TestEndlessError: of an endless error 64 KiB are read, and all of another answer.
func TestEndlessError(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := []byte(strings.Repeat("x", 100<<10))
		if r.URL.Path == "/whole" {
			_, _ = w.Write(part)
			return
		}
		defer close(ended)
		w.WriteHeader(http.StatusForbidden)
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: errorbody.Around(transport)}
	for path, want := range map[string]int{"/whole": 100 << 10, "/endless": 64 << 10} {
		response, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(response.Body)
		if err != nil || len(data) != want {
			t.Errorf("of %s %d bytes were read: %v; want %d", path, len(data), err, want)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	<-ended
}

func TestFailedRequest(t *testing.T) {
	failure := errors.New("away")
	//nolint:bodyclose // There is no response.
	if response, err := errorbody.Bound(nil, failure); response != nil || !errors.Is(err, failure) {
		t.Errorf("the result is %v, %v", response, err)
	}
}
