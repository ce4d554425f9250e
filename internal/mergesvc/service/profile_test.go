package service_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestGetProfile: a profile arrives in parts, in pprof's format; an unknown one, or one of a bad duration, is refused.
func TestGetProfile(t *testing.T) {
	n := start(t, options{})
	get := func(name string, d time.Duration) ([]byte, error) {
		stream, err := n.api.GetProfile(t.Context(), &podconfigv1.GetProfileRequest{Name: name, Duration: durationpb.New(d)})
		if err != nil {
			return nil, err
		}
		var all []byte
		for {
			part, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return all, nil
			}
			if err != nil {
				return nil, err
			}
			all = append(all, part.GetData()...)
		}
	}
	for _, name := range []string{"profile", "heap", "goroutine"} {
		data, err := get(name, 50*time.Millisecond)
		wantCode(t, name, err, codes.OK)
		if r, err := gzip.NewReader(bytes.NewReader(data)); err != nil {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		} else if _, err := io.Copy(io.Discard, r); err != nil {
			t.Errorf("%s is cut off: %v", name, err)
		}
	}
	_, err := get("passwords", 0)
	wantCode(t, "an unknown profile", err, codes.InvalidArgument)
	_, err = get("profile", time.Hour)
	wantCode(t, "an hour", err, codes.InvalidArgument)
}
