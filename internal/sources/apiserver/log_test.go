package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// withoutCluster returns the lines without the one that a Source logs when it first sees the cluster.
func withoutCluster(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, "the cluster is known") })
}

func TestAnOutageIsLoggedTwice(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	log := &logtest.Buffer{}
	s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Logger: slog.New(slog.NewTextHandler(log, nil))})
	r := start(t, s)
	_, at := r.awaitPods(0)
	server.AwaitWatches("pods", 1)
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "not now")
	})
	server.EndWatches()
	_, at = r.awaitErr(at)
	server.Await("tries", func(v apitest.View) bool {
		return v.Answered(func(r apitest.Request) bool { return r.Code == 503 }) >= 4
	})
	server.Answer(nil)
	server.AwaitWatches("pods", 1)
	server.Put(newPod("a"))
	r.awaitPods(at, "ns/a")
	r.stop()
	lines := withoutCluster(log.Lines())
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], server.URL()) ||
		!strings.Contains(lines[1], "can be read again") {
		t.Errorf("the log is\n%s", strings.Join(lines, "\n"))
	}
}

// TestOneReasonIsLoggedOnce: an error whose text has the time of day is logged when it first occurs, and again
// only after the server could be read meanwhile. Another certificate is another reason.
func TestOneReasonIsLoggedOnce(t *testing.T) {
	log := &logtest.Buffer{}
	var errs []string
	e := &emitter{
		comparable: func() bool { return true },
		log:        slog.New(slog.NewTextHandler(log, nil)), clock: clock.RealClock{}, address: "https://x",
		out: func(s manifest.Set) { errs = append(errs, fmt.Sprint(s.Err)) },
	}
	expired := func(at, now int64) batch {
		return batch{err: &url.Error{Op: "Get", URL: "https://x/api", Err: &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{
			Cert: &x509.Certificate{}, Reason: x509.Expired,
			Detail: fmt.Sprintf("current time %s is after %s", time.Unix(now, 0).Format(time.RFC3339), time.Unix(at, 0).Format(time.RFC3339)),
		}}}}
	}
	e.emit(expired(0, 1000))
	e.emit(expired(0, 1001))
	e.emit(expired(500, 1002))
	e.emit(batch{good: true, watched: true})
	e.emit(expired(500, 1003))
	if len(errs) != 4 || errs[2] != "<nil>" || errs[0] == errs[1] || !strings.Contains(errs[0], time.Unix(1000, 0).Format(time.RFC3339)) {
		t.Errorf("the sets have the errors\n%s", strings.Join(errs, "\n"))
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 3 {
		t.Errorf("there are %d warnings:\n%s", n, log.String())
	}
}

func TestClientGoLogsForDebugging(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Stop()
	log := &logtest.Buffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := start(t, newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Logger: logger}))
	r.awaitErr(0)
	server.Start()
	r.awaitPods(1)
	r.stop()
	found := false
	for _, line := range log.Lines() {
		if strings.Contains(line, "from=client-go") {
			found = true
			if !strings.Contains(line, "level=DEBUG") {
				t.Errorf("client-go logged: %s", line)
			}
		}
	}
	if !found {
		t.Errorf("client-go's messages aren't in the log:\n%s", log.String())
	}
}
