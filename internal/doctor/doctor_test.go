package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// A healthy node gets no advice; findings on the machine that runs the test are ignored.
func TestWell(t *testing.T) {
	n := newNode(t)
	n.joins()
	for _, f := range Examine(t.Context(), n.config) {
		if f.Check == "clock" || f.Check == "disk" {
			continue
		}
		if f.State != OK && f.Check != "certificates" || f.Advice != "" && f.Check != "certificates" {
			t.Errorf("%s is %s: %s; %s", f.Check, f.State, f.Found, f.Advice)
		}
	}
}

// Each problem is found by its check, with a description and advice.
func TestTroubles(t *testing.T) {
	for name, tc := range map[string]struct {
		harm  func(n *node)
		check string
		state State
		found string
	}{
		"no podconfigd":          {func(n *node) { n.config.Podconfigd = n.noDaemon() }, "podconfigd", Failed, "no such file"},
		"no podexecd":            {func(n *node) { n.config.Podexecd = n.noDaemon() }, "podexecd", Failed, "no such file"},
		"a socket that is gone":  {func(n *node) { n.config.Podexec.Listen = []string{"unix:///nowhere"} }, "sockets", Failed, "/nowhere isn't there"},
		"a file for a socket":    {func(n *node) { n.config.Podexec.Listen = []string{"unix://" + n.write("f", "")} }, "sockets", Failed, "is no socket"},
		"a store that is full":   {func(n *node) { n.sick(storeHealth) }, "podconfigd", Failed, "store can't be written"},
		"a runtime that is gone": {func(n *node) { n.sick(runtimeHealth) }, "podexecd", Failed, "can't reach the container runtime"},
		"a source that isn't ready": {func(n *node) { n.sources[0].Ready, n.sources[0].LastError = false, "no such directory" },
			"sources", Failed, "file (/m) isn't ready: no such directory"},
		"a source that can't be read now": {func(n *node) { n.sources[0].LastError = "503" }, "sources", Warning, "503"},
		"a manifest that is wrong": {func(n *node) {
			n.sources[0].Findings = []*podconfigv1.Finding{{Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR}}
		}, "sources", Warning, "1 manifests can't be used"},
		"no sources":                   {func(n *node) { n.sources = nil }, "sources", Warning, "no sources"},
		"a stream of another consumer": {func(n *node) { n.watcher.Name = "podctl@n1" }, "stream", Failed, "doesn't watch"},
		"a stream that stands": {func(n *node) {
			n.watcher.State, n.watcher.LagRevisions = podconfigv1.ConsumerState_CONSUMER_STATE_PARKED, 7
		},
			"stream", Warning, "7 revisions behind"},
		"a refused pod": {func(n *node) {
			n.watcher.LastReport = &podconfigv1.ReportAppliedRequest{Errors: []*podconfigv1.PodError{{
				Ref: &podconfigv1.PodRef{Namespace: "a", Name: "b"}, Message: "no room",
			}}}
		}, "stream", Warning, "a/b: no room"},
		"no CNI config":          {func(n *node) { n.condition(1, "NetworkPluginNotReady", "cni plugin not initialized") }, "network", Failed, "cni plugin not initialized"},
		"no CNI plugin":          {func(n *node) { _ = os.Remove(filepath.Join(n.dir, "opt/cni/bin/ptp")) }, "network", Failed, "plugin ptp is in none of /opt/cni/bin"},
		"a sick runtime":         {func(n *node) { n.condition(0, "Bad", "shim lost") }, "runtime", Failed, "shim lost"},
		"no forwarding":          {func(n *node) { n.write("proc/sys/net/ipv4/ip_forward", "0\n") }, "forwarding", Warning, "doesn't forward"},
		"a clock that is behind": {func(n *node) { n.joins(); n.ahead = 2 * time.Minute }, "clock", Failed, "behind the API server's"},
		"a stranger":             {func(n *node) { n.joins(); n.user = "" }, "credentials", Failed, "rejects the node's credentials"},
		"another's name":         {func(n *node) { n.joins(); n.user = "system:node:n2" }, "credentials", Warning, "authenticates this node as system:node:n2"},
		"an open kubeconfig":     {func(n *node) { n.joins(); _ = os.Chmod(n.config.Podexec.Settings.Kubeconfig, 0o644) }, "credentials", Warning, "may be read by others"},
		"no kubeconfig":          {func(n *node) { n.config.Podexec.Settings.Kubeconfig = "/nowhere" }, "credentials", Failed, "/nowhere isn't there"},
		"no kubeconfig yet": {func(n *node) {
			n.config.Podexec.Settings.Kubeconfig, n.config.Podexec.Settings.BootstrapKubeconfig = "/nowhere", "/boot"
		}, "credentials", Warning, "asks for a certificate by /boot"},
		"an expired certificate": {func(n *node) { n.config.Podexec.Settings.TLSCertFile = n.certificate("c.pem", -time.Hour) }, "certificates", Failed, "has expired"},
		"a certificate that expires soon": {func(n *node) { n.config.Podexec.Settings.TLSCertFile = n.certificate("c.pem", time.Hour) },
			"certificates", Warning, "expires soon"},
		"half a certificate":    {func(n *node) { n.config.Podexec.Settings.TLSCertFile = n.write("c.pem", "-----BEGIN") }, "certificates", Failed, "has no certificate"},
		"another podctl":        {func(n *node) { n.config.Version = "v2" }, "versions", Warning, "podctl is v2, podconfigd v1, podexecd v1"},
		"another podexecd":      {func(n *node) { n.exec.version = "v0" }, "versions", Warning, "podexecd v0"},
		"a much older podexecd": {func(n *node) { n.exec.version = "" }, "versions", Warning, "podexecd is older"},
		"no client CA":          {func(n *node) { n.joins(); n.config.Podexec.Settings.EnableServer = true }, "certificates", Warning, "no --client-ca-file"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			tc.harm(n)
			findings := Examine(t.Context(), n.config)
			for _, f := range findings {
				if f.Check == tc.check && f.State == tc.state && strings.Contains(f.Found, tc.found) && f.Advice != "" {
					return
				}
			}
			t.Errorf("no check %s is %s with %q and advice; found %+v", tc.check, tc.state, tc.found, findings)
		})
	}
}

func (n *node) sick(part string) {
	n.health.SetServingStatus(part, healthv1.HealthCheckResponse_NOT_SERVING)
}

func (n *node) condition(i int, reason, message string) {
	c := n.status.Status.Conditions[i]
	c.Status, c.Reason, c.Message = false, reason, message
}

// noDaemon is a connection to a daemon that isn't running.
func (n *node) noDaemon() Connection {
	conn, err := grpc.NewClient("unix:///nowhere/at/all", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return Connection{ClientConnInterface: conn}
}

// A check that hangs is reported, and doesn't delay the others.
func TestHang(t *testing.T) {
	n := newNode(t)
	release := make(chan struct{})
	defer close(release)
	n.config.Patience = 3 * time.Second
	n.config.Podconfigd = Connection{ClientConnInterface: hanging{release}}
	findings := Examine(t.Context(), n.config)
	states := map[string]State{}
	for _, f := range findings {
		states[f.Check] = f.State
	}
	if states["podconfigd"] != Failed || states["runtime"] != OK || Worst(findings) != Failed {
		t.Errorf("with a podconfigd that hangs: %+v", findings)
	}
}

// hanging is a connection whose calls ignore their context.
type hanging struct{ release chan struct{} }

func (h hanging) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	<-h.release
	return errors.New("released")
}

func (h hanging) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

// podexecd's flags are read from the process that listens: here, from this one, whose flags are go test's.
func TestReadPodexec(t *testing.T) {
	n := newNode(t)
	socket := strings.TrimPrefix(n.config.Podexec.Listen[0], "unix://")
	pid, err := listener(socket)
	if err != nil || pid != os.Getpid() {
		t.Errorf("process %d listens, %v; want this one, %d", pid, err, os.Getpid())
	}
	if _, err := ReadPodexec("/nowhere"); err == nil {
		t.Error("a process listens at /nowhere")
	}
	p, err := ParsePodexec([]string{"--root-dir", "state", "--kubelet-dir=vol", "--kubeconfig=kube.conf", "--hostname-override=N2"}, "/srv")
	if err != nil {
		t.Fatal(err)
	}
	if p.RootDir != "/srv/state" || p.KubeletDir != "/srv/vol" || p.Settings.Kubeconfig != "/srv/kube.conf" || p.Settings.CertDir != "/srv/state/pki" || p.Node != "n2" {
		t.Errorf("podexecd works with %s, %s, %s, %s as %s", p.RootDir, p.KubeletDir, p.Settings.Kubeconfig, p.Settings.CertDir, p.Node)
	}
	if _, err := ParsePodexec([]string{"--max-pods=many"}, "/"); err == nil {
		t.Error("many pods are a number")
	}
}

// A podexecd that has just started may have no answer from the runtime yet. doctor waits for it briefly.
func TestRuntimeThatIsNotKnownYet(t *testing.T) {
	before := firstAnswer
	defer func() { firstAnswer = before }()
	for name, tc := range map[string]struct {
		patience time.Duration
		answers  bool
		want     State
	}{"it answers soon": {time.Minute, true, OK}, "it doesn't": {50 * time.Millisecond, false, Warning}} {
		n := newNode(t)
		firstAnswer = tc.patience
		n.health.SetServingStatus(runtimeHealth, healthv1.HealthCheckResponse_UNKNOWN)
		if tc.answers {
			time.AfterFunc(50*time.Millisecond, func() { n.health.SetServingStatus(runtimeHealth, healthv1.HealthCheckResponse_SERVING) })
		}
		found := (&examination{Config: n.config}).podexecd(t.Context())
		if len(found) != 1 || found[0].State != tc.want {
			t.Errorf("%s: %+v; want %v", name, found, tc.want)
		}
	}
}

// A podexecd that has just started doesn't watch the stream yet. The advice says so before it names a flag.
func TestAdviceOnAMissingStream(t *testing.T) {
	n := newNode(t)
	n.watcher.Name = "podctl@n1"
	found := (&examination{Config: n.config}).stream(t.Context())
	if len(found) != 1 || found[0].State != Failed {
		t.Fatalf("found %+v", found)
	}
	for _, want := range []string{"has just started, ask again", "log", "--podconfig-endpoint"} {
		_, rest, ok := strings.Cut(found[0].Advice, want)
		if !ok {
			t.Fatalf("the advice lacks %q, or has it too early; then follows %q", want, found[0].Advice)
		}
		found[0].Advice = rest
	}
}
