package podexecd

import (
	"context"
	"errors"
	"slices"
	"testing"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// statusRuntime is a runtime that has nothing but a status, which it tells after some failures.
type statusRuntime struct {
	internalapi.RuntimeService
	failures, asked int
	config          string
}

func (r *statusRuntime) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	if r.asked++; r.asked <= r.failures {
		return nil, errors.New("busy")
	}
	return &runtimeapi.StatusResponse{Info: map[string]string{"config": r.config}}, nil
}

// A runtime that doesn't answer at first is asked again for the image that sandboxes are of, and once it has answered no more.
func TestSandboxImages(t *testing.T) {
	for config, want := range map[string][]string{`{"sandboxImage": "pause:3"}`: {"pause:3"}, `{}`: nil, `?`: nil} {
		r := &statusRuntime{failures: 2, config: config}
		images := (&connection{runtime: r}).sandboxImages(t.Context())
		for try := range 5 {
			got := images()
			if try < r.failures && got != nil || try >= r.failures && !slices.Equal(got, want) {
				t.Errorf("%s, try %d: %q", config, try, got)
			}
		}
		if r.asked != r.failures+1 {
			t.Errorf("%s: it was asked %d times", config, r.asked)
		}
	}
}
