package podexecd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// rangedRuntime records the address ranges that it is given.
type rangedRuntime struct {
	internalapi.RuntimeService
	ranges []string
	err    error
}

func (r *rangedRuntime) UpdateRuntimeConfig(_ context.Context, config *runtimeapi.RuntimeConfig) error {
	r.ranges = append(r.ranges, config.GetNetworkConfig().GetPodCidr())
	return r.err
}

// TestAssign: the runtime receives the configured range, if there is one, and its failure is only logged.
func TestAssign(t *testing.T) {
	for _, tc := range []struct {
		cidr string
		err  error
		want []string
	}{
		{"", nil, nil},
		{"10.85.0.0/24", nil, []string{"10.85.0.0/24"}},
		{"10.85.0.0/24,fd00::/64", errors.New("no template"), []string{"10.85.0.0/24,fd00::/64"}},
	} {
		var log bytes.Buffer
		r := &rangedRuntime{err: tc.err}
		(&connection{runtime: r}).assign(t.Context(), tc.cidr, slog.New(slog.NewTextHandler(&log, nil)))
		if !slices.Equal(r.ranges, tc.want) {
			t.Errorf("%q: the runtime got %q; want %q", tc.cidr, r.ranges, tc.want)
		}
		if logged := strings.Contains(log.String(), "no template"); logged != (tc.err != nil) {
			t.Errorf("%q: the log is %q", tc.cidr, log.String())
		}
	}
}
