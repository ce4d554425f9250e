package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/access/accesstest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// Users with no name of their own on the machine.
const (
	inspectorUID = 65532
	strangerUID  = 65533
	floodUID     = 65531
)

// accessFile is who may see what of an exposed podconfigd.
var accessFile = fmt.Sprintf(`clients:
- {commonName: agent, role: consumer}
- {commonName: narrow, role: consumer, sources: ["file:other"]}
- {commonName: looker, role: inspector}
- {uid: %d, role: inspector}
`, inspectorUID)

// exposed is a podconfigd with two sources, file and file:other, on a socket that other users can open, and on TCP.
type exposed struct {
	t      *testing.T
	daemon *devnode.Process
	// dir has the manifests of file and other, and the TLS files.
	dir, socket, tcp, metrics string
	ca                        *accesstest.CA
	local                     podconfigv1.PodConfigServiceClient
	// conns are the connections made by this test.
	conns []*grpc.ClientConn
}

func newExposed(t *testing.T) *exposed {
	t.Helper()
	// Not t.TempDir: other users can't get into that.
	dir, err := os.MkdirTemp("", "e2e-open")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	e := &exposed{
		t: t, dir: dir, socket: filepath.Join(dir, "s"), tcp: freeAddress(t), metrics: freeAddress(t), ca: accesstest.NewCA(t, "first"),
	}
	for _, sub := range []string{"file", "other", "tls"} {
		check(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	e.serverCertificate(e.ca)
	e.tlsFile("clients.pem", e.ca.PEM)
	e.tlsFile("access.yaml", []byte(accessFile))
	name := fmt.Sprintf("n%d", rigs.Add(1))
	e.daemon, err = startNode(t, devnode.Sim).StartDaemonAs(name+"-podconfigd", "podconfigd", "--hostname-override", name,
		"--root-dir", filepath.Join(dir, "root"), "--listen", "unix://"+e.socket, "--listen", "tcp://"+e.tcp, "--metrics-address", e.metrics,
		"--pod-manifest-path", filepath.Join(dir, "file"), "--pod-manifest-path", "other="+filepath.Join(dir, "other"),
		"--tls-cert-file", e.tlsPath("server.pem"), "--tls-private-key-file", e.tlsPath("server.key"),
		"--client-ca-file", e.tlsPath("clients.pem"), "--access-file", e.tlsPath("access.yaml"))
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s ends with:\n%s", e.daemon.Name, e.daemon.LogTail())
		}
		e.hangUp()
		_ = e.daemon.Kill()
	})
	check(t, devnode.WaitServing(t.Context(), e.daemon, "unix://"+e.socket))
	e.local = podconfigv1.NewPodConfigServiceClient(dial(t, "unix://"+e.socket))
	return e
}

// forTest is the same podconfigd to a subtest, with connections that end with it.
func (e *exposed) forTest(t *testing.T) *exposed {
	own := *e
	own.t, own.conns = t, nil
	t.Cleanup(own.hangUp)
	return &own
}

// hangUp closes the connections that were made by the test.
func (e *exposed) hangUp() {
	for _, conn := range e.conns {
		_ = conn.Close()
	}
	e.conns = nil
}

// freeAddress is one on loopback that nobody listens on at the moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (e *exposed) tlsPath(name string) string { return filepath.Join(e.dir, "tls", name) }

func (e *exposed) tlsFile(name string, data []byte) { accesstest.WriteFile(e.t, e.tlsPath(name), data) }

func (e *exposed) serverCertificate(ca *accesstest.CA) {
	certificate, key := ca.Issue(accesstest.Request{Server: true})
	e.tlsFile("server.key", key)
	e.tlsFile("server.pem", certificate)
}

// clientFiles issues a certificate for a client and puts it, with its key, where the returned TLS names it.
func (e *exposed) clientFiles(ca *accesstest.CA, name string) client.TLS {
	certificate, key := ca.Issue(accesstest.Request{CommonName: name})
	e.tlsFile(name+".key", key)
	e.tlsFile(name+".pem", certificate)
	return client.TLS{CertFile: e.tlsPath(name + ".pem"), KeyFile: e.tlsPath(name + ".key"), CAFile: e.tlsPath("clients.pem")}
}

// remote calls over TCP from the given address of loopback. Nothing is waited for: who is refused is told at once.
func (e *exposed) remote(creds credentials.TransportCredentials, from string) podconfigv1.PodConfigServiceClient {
	e.t.Helper()
	return e.dialWith(creds, func(context.Context, string) (net.Conn, error) { return e.connect(0, from) })
}

// connect makes a connection over TCP from an address of loopback or, if that is empty, on the socket as that user.
func (e *exposed) connect(uid int, from string) (conn net.Conn, err error) {
	if from == "" {
		become := asUser(uid, func() {
			// A socket whose queue is full for the moment is no refusal.
			for conn, err = net.Dial("unix", e.socket); errors.Is(err, unix.EAGAIN); conn, err = net.Dial("unix", e.socket) {
				runtime.Gosched()
			}
		})
		return conn, errors.Join(become, err)
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return dialer.Dial("tcp", e.tcp)
}

// identified calls over TCP with a good certificate for that name.
func (e *exposed) identified(name, from string) podconfigv1.PodConfigServiceClient {
	e.t.Helper()
	return e.remote(credentials.NewTLS(e.ca.Client(e.ca, accesstest.Request{CommonName: name})), from)
}

// user calls on the socket as another user.
func (e *exposed) user(uid int) podconfigv1.PodConfigServiceClient {
	e.t.Helper()
	return e.dialWith(insecure.NewCredentials(), func(context.Context, string) (net.Conn, error) { return e.connect(uid, "") })
}

func (e *exposed) dialWith(
	creds credentials.TransportCredentials, dialer func(context.Context, string) (net.Conn, error),
) podconfigv1.PodConfigServiceClient {
	e.t.Helper()
	conn, err := grpc.NewClient("passthrough:///127.0.0.1", grpc.WithTransportCredentials(creds), grpc.WithContextDialer(dialer))
	check(e.t, err)
	e.conns = append(e.conns, conn)
	return podconfigv1.NewPodConfigServiceClient(conn)
}

// put puts a manifest in its place by renaming.
func (e *exposed) put(source, name, content string) error {
	temp := filepath.Join(e.dir, source, "."+name)
	if err := os.WriteFile(temp, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(e.dir, source, name))
}

// until polls until check succeeds.
func until(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
	}
}

// metricOn is the value of the series, labels included, on a metrics page.
func metricOn(address, series string) (float64, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the page has no %s", series)
}

// refusal fails unless err has the code and the words.
func refusal(t *testing.T, what string, err error, code codes.Code, words string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v; want %s with %q", what, err, code, words)
	}
}

func listReferences(ctx context.Context, api podconfigv1.PodConfigServiceClient) (*podconfigv1.ListPodsResponse, error) {
	return api.ListPods(ctx, &podconfigv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
}

// turnedAway fails unless a client with that configuration is turned away before it can call, for that reason.
func (e *exposed) turnedAway(t *testing.T, what string, cfg *tls.Config, reason string) {
	t.Helper()
	_, err := listReferences(t.Context(), e.remote(credentials.NewTLS(cfg), "127.0.0.1"))
	refusal(t, what, err, codes.Unavailable, "")
	// gRPC writes before it reads, and may so fail without having read why.
	cfg.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", e.tcp, cfg)
	if err == nil {
		defer conn.Close()
		check(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: the handshake ends with %v; want %q", what, err, reason)
	}
}

// Certificates, authorities and roles change under connected consumers: those that the change isn't about notice nothing, the
// others come back by what is in force then, and miss nothing and get nothing twice (G3, G7).
func TestG7RotationLosesNothing(t *testing.T) {
	t.Parallel()
	e := newExposed(t)
	c := newCrowd(t, e)
	agent := c.watch("agent", client.Config{Endpoint: "tcp://" + e.tcp, TLS: e.clientFiles(e.ca, "agent")}, "file", "other")
	local := c.watch("local", client.Config{Endpoint: "unix://" + e.socket, Consumer: "local"}, "file", "other")
	narrow := c.watch("narrow", client.Config{Endpoint: "tcp://" + e.tcp, TLS: e.clientFiles(e.ca, "narrow")}, "other")
	c.pulse()
	inForce := func(what string, check func() error) {
		t.Helper()
		// Two looks at the files, a second apart.
		c.during(func() { until(t, patience, what, check) })
	}
	streams := func(want ...int32) {
		t.Helper()
		for i, h := range []*honest{agent, local, narrow} {
			if got := h.streams.Load(); got != want[i] {
				t.Errorf("%s is on its stream number %d; want %d", h.name, got, want[i])
			}
		}
	}
	served := func(name string) func() error {
		return func() error {
			defer e.hangUp()
			_, err := listReferences(t.Context(), e.identified(name, "127.0.0.1"))
			return err
		}
	}

	before := serverSerial(t, e)
	e.serverCertificate(e.ca)
	inForce("the new certificate is shown", func() error {
		if serverSerial(t, e) == before {
			return errors.New("it is the old one")
		}
		return nil
	})
	streams(1, 1, 1)

	second := accesstest.NewCA(t, "second")
	bySecond := credentials.NewTLS(e.ca.Client(second, accesstest.Request{CommonName: "agent"}))
	e.tlsFile("clients.pem", append(append([]byte{}, e.ca.PEM...), second.PEM...))
	inForce("clients of the new authority are let in", func() error {
		defer e.hangUp()
		_, err := listReferences(t.Context(), e.remote(bySecond, "127.0.0.1"))
		return err
	})
	streams(1, 1, 1)
	e.clientFiles(second, "agent")
	e.clientFiles(second, "narrow")
	c.leave(agent, narrow)
	e.tlsFile("clients.pem", second.PEM)
	e.serverCertificate(second)
	inForce("consumers with certificates of the old authority are back with new ones", func() error {
		if agent.streams.Load() < 2 || narrow.streams.Load() < 2 {
			return errors.New("they aren't")
		}
		return nil
	})
	c.rejoin(agent, narrow)
	e.turnedAway(t, "the old authority", second.Client(e.ca, accesstest.Request{CommonName: "agent"}), "tls: unknown certificate authority")
	streams(2, 1, 2)
	e.ca = second

	// A key that doesn't fit its certificate changes nothing.
	_, key := e.ca.Issue(accesstest.Request{Server: true})
	good, err := os.ReadFile(e.tlsPath("server.key"))
	check(t, err)
	e.tlsFile("server.key", key)
	inForce("the log tells of the key", func() error { return fileContains(e.daemon.LogPath, "private key does not match public key") })
	check(t, served("agent")())
	e.tlsFile("server.key", good)

	c.leave(narrow)
	e.tlsFile("access.yaml", []byte(strings.Replace(accessFile, "commonName: narrow,", "commonName: nobody,", 1)))
	inForce("a role that is taken away is gone", func() error {
		if err := served("narrow")(); status.Code(err) != codes.PermissionDenied {
			return fmt.Errorf("a call: %w", err)
		}
		return nil
	})
	e.tlsFile("access.yaml", []byte(accessFile))
	inForce("a role that is given again is there", served("narrow"))
	c.rejoin(narrow)
	c.pulse()
	streams(2, 1, 3)
}

// serverSerial tells the certificates that podconfigd shows apart.
func serverSerial(t *testing.T, e *exposed) string {
	t.Helper()
	conn, err := tls.Dial("tcp", e.tcp, e.ca.Client(e.ca, accesstest.Request{CommonName: "agent"}))
	check(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// A certificate that expires ends its connection, and a new one isn't let in.
func TestG8ExpiryEndsTheStream(t *testing.T) {
	t.Parallel()
	e := newExposed(t)
	// X.509 counts whole seconds.
	expiring := e.ca.Client(e.ca, accesstest.Request{CommonName: "agent", NotAfter: time.Now().Add(3 * time.Second)})
	api := e.remote(credentials.NewTLS(expiring), "127.0.0.1")
	watch, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
	check(t, err)
	began := time.Now()
	for err == nil {
		_, err = watch.Recv()
	}
	if took := time.Since(began); status.Code(err) != codes.Unavailable || took > 10*time.Second {
		t.Errorf("the stream ends after %v with %v; want UNAVAILABLE soon after 3 s", took, err)
	}
	e.turnedAway(t, "the expired certificate", expiring, "tls: expired certificate")
}

// What an inspector is shown by podctl tells everything but secrets; a consumer is shown those too.
func TestG8InspectorsSeeNoSecrets(t *testing.T) {
	t.Parallel()
	e := newExposed(t)
	check(t, e.put("file", "web.yaml", `
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"password":"hush1"}'}
spec:
  initContainers:
  - {name: first, image: first-image, args: [hush2], env: [{name: PASSWORD, value: hush3}]}
  containers:
  - name: main
    image: main-image
    command: [/bin/main, --token=hush4]
    args: [hush5]
    env: [{name: TOKEN, value: hush6}]
    livenessProbe: {httpGet: {port: 80, path: "/?key=hush7", httpHeaders: [{name: Authorization, value: hush8}]}}
    readinessProbe: {exec: {command: [probe, hush9]}}
`))
	until(t, patience, "the pod is served", func() error {
		resp, err := listReferences(t.Context(), e.local)
		if err == nil && len(resp.GetPods()) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	for _, name := range []string{"looker", "agent"} {
		files := e.clientFiles(e.ca, name)
		podctl := func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, filepath.Join(binDir, "podctl"), append([]string{"--podconfig-endpoint", "tcp://" + e.tcp,
				"--tls-cert-file", files.CertFile, "--tls-private-key-file", files.KeyFile, "--tls-ca-file", files.CAFile}, args...)...)
		}
		for _, args := range [][]string{{"pods"}, {"pods", "-o", "wide"}, {"pods", "-o", "yaml"}, {"pods", "-o", "json"}} {
			// There is no podexecd to ask, which makes its exit code 1.
			out, _ := podctl(t.Context(), args...).Output()
			seesSecrets(t, name, args, string(out), name == "agent" && (args[len(args)-1] == "yaml" || args[len(args)-1] == "json"))
		}
		for _, args := range [][]string{
			{"watch", "-o", "wide"}, {"watch", "-o", "yaml"}, {"watch", "-o", "json"}, {"watch", "-o", "yaml", "--mode", "snapshot"},
		} {
			ctx, stop := context.WithTimeout(t.Context(), patience)
			cmd := podctl(ctx, args...)
			out, err := cmd.StdoutPipe()
			check(t, err)
			check(t, cmd.Start())
			var text strings.Builder
			for lines := bufio.NewScanner(out); !strings.Contains(strings.ToLower(text.String()), "synced") && lines.Scan(); {
				text.WriteString(lines.Text() + "\n")
			}
			stop()
			_ = cmd.Wait()
			seesSecrets(t, name, args, text.String(), name == "agent" && args[2] != "wide")
		}
	}
	_, err := e.identified("looker", "127.0.0.1").DiffManifests(t.Context(), &podconfigv1.DiffManifestsRequest{})
	refusal(t, "an inspector's DiffManifests", err, codes.PermissionDenied,
		"CN=looker is inspector; /podconfig.v1.PodConfigService/DiffManifests is for the role consumer")
}

// seesSecrets checks that all secrets are in what podctl printed, or none.
func seesSecrets(t *testing.T, who string, args []string, out string, want bool) {
	t.Helper()
	for i := 1; i <= 9; i++ {
		if secret := fmt.Sprint("hush", i); strings.Contains(out, secret) != want {
			t.Errorf("podctl %v shows %s the secret %s: %v; want %v", args, who, secret, !want, want)
		}
	}
	if !strings.Contains(out, "web-n") {
		t.Errorf("podctl %v doesn't show %s the pod:\n%s", args, who, out)
	}
}
