package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

const (
	// releaseTimeout is how long a server has to show its version, and releaseFor how long that counts.
	releaseTimeout, releaseFor = 5 * time.Second, 5 * time.Minute
	// maxRelease is the largest answer in bytes.
	maxRelease = 64 << 10
	// comparableMinor is the minor version of Kubernetes 1 since which resource versions can be compared.
	comparableMinor = 35
)

// release checks whether the server promises that resource versions can be compared. It is safe for concurrent use.
type release struct {
	client rest.Interface
	dials  func() uint64
	clock  clock.PassiveClock
	log    *slog.Logger

	// comparable is the last answer.
	comparable atomic.Bool

	// mu is held while the server is requested. The answer counts for the connections up to this number, until that time.
	mu     sync.Mutex
	dialed uint64
	until  time.Time
	// logged is the version that was logged as too old.
	logged string
}

// check requests the server's version, unless the last answer counts. If it fails, the last answer stays.
func (r *release) check(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dialed, now := r.dials(), r.clock.Now()
	if r.dialed == dialed && now.Before(r.until) {
		return
	}
	info, err := r.get(ctx)
	if err != nil {
		r.log.Debug("the API server doesn't show its version", "error", err)
		return
	}
	compares := comparesVersions(info)
	r.comparable.Store(compares)
	r.dialed, r.until = dialed, now.Add(releaseFor)
	switch {
	case compares:
		r.logged = ""
	case r.logged != info.GitVersion:
		r.logged = info.GitVersion
		r.log.Info("the API server's resource versions can't be compared: consumers get no position", "version", info.GitVersion)
	}
}

// get reads the version. Every user may do so, by the role system:public-info-viewer.
func (r *release) get(ctx context.Context) (version.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	var info version.Info
	body, err := r.client.Get().AbsPath("/version").SetHeader("Accept", "application/json").MaxRetries(0).Stream(ctx)
	if err != nil {
		return info, err
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, maxRelease))
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return info, fmt.Errorf("its version isn't in JSON: %w", err)
	}
	info.GitVersion = info.GitVersion[:min(len(info.GitVersion), 100)]
	return info, nil
}

// comparesVersions reports whether a server of this version promises that resource versions can be compared. Providers
// append a "+" to the minor version. A server that was built without a release's flags has only GitVersion.
func comparesVersions(info version.Info) bool {
	if info.Major == "" && info.Minor == "" {
		parts := strings.SplitN(strings.TrimPrefix(info.GitVersion, "v"), ".", 3)
		if len(parts) < 3 {
			return false
		}
		info.Major, info.Minor = parts[0], parts[1]
	}
	major, err := strconv.Atoi(info.Major)
	if err != nil {
		return false
	}
	digits := strings.IndexFunc(info.Minor, func(c rune) bool { return c < '0' || c > '9' })
	if digits < 0 {
		digits = len(info.Minor)
	}
	minor, err := strconv.Atoi(info.Minor[:digits])
	return err == nil && (major > 1 || major == 1 && minor >= comparableMinor)
}
