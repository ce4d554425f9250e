package kubeadm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	sampleImage = "podstream.test/sample:1"
	// controlIP and workerIP are the nodes' addresses: the two ends of a wire.
	controlIP, workerIP = "10.123.0.1", "10.123.0.2"
	apiServer           = controlIP + ":6443"
	clusterDNS          = "10.96.0.10"
)

// ignored are the errors of kubeadm's preflight that the test ignores, each with the text that kubeadm prints for it. The machine has
// cgroup v1.
var ignored = map[string]string{"SystemVerification": "The system verification failed"}

func ignoredErrors() string {
	names := make([]string, 0, len(ignored))
	for name := range ignored {
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

const initConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: ` + controlIP + `}
nodeRegistration:
  name: control
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs: [{name: node-ip, value: ` + controlIP + `}]
patches: {directory: /etc/kubeadm-patches}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: VERSION
networking: {podSubnet: 10.244.0.0/16}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
# A network namespace can't change the machine's limit.
conntrack: {maxPerCore: 0, min: 0}
`

const workload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {kubernetes.io/hostname: worker}
      terminationGracePeriodSeconds: 1
      containers:
      - {name: web, image: ` + sampleImage + `, args: [serve, ":8080"], readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`

// dirVariable names the directory for the nodes' files, which hack/test-kubeadm.sh removes. The names of the nodes' cgroups begin
// with its name.
const dirVariable = "PODSTREAM_KUBEADM_DIR"

// fetchVariable has the URL that this program fetches, in place of the tests; names are resolved by the cluster's DNS.
const fetchVariable = "PODSTREAM_FETCH"

func TestMain(m *testing.M) {
	if url := os.Getenv(fetchVariable); url != "" {
		if err := fetch(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func fetch(url string) error {
	if address, ok := strings.CutPrefix(url, "tls://"); ok {
		// Its certificate is what is looked at.
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // as above
		if err != nil {
			return err
		}
		defer conn.Close()
		fmt.Printf("%x", conn.ConnectionState().PeerCertificates[0].SerialNumber)
		return nil
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, clusterDNS+":53")
	}}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: dialer.DialContext}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	_, err = io.Copy(os.Stdout, io.LimitReader(resp.Body, 1<<20))
	return err
}

// TestKubeadm makes a cluster of two nodes with kubeadm, uses it, renews its certificates, and removes it.
func TestKubeadm(t *testing.T) {
	agent := os.Getenv("AGENT")
	c := startCluster(t, agent)
	c.kubectl("-n", "kube-system", "wait", "--for=condition=Available", "deployment/coredns", "--timeout=180s")
	c.kubectl("get", "pods,nodes", "-A", "-o", "wide")
	versions := strings.Fields(c.kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.kubeletVersion}"))
	for _, v := range versions {
		if isOurs := strings.HasSuffix(v, "-podstream"); isOurs != (agent != "kubelet") {
			t.Errorf("a node's agent has the version %s", v)
		}
	}
	if len(versions) != 2 {
		t.Errorf("the nodes' versions are %v", versions)
	}
	c.useService()

	c.upgrade()
	for _, m := range []*machine{c.control, c.worker} {
		c.restartAgent(m)
	}
	c.renew()
	c.kubectl("-n", "kube-system", "wait", "--for=condition=Ready", "pod", "--selector=tier=control-plane", "--timeout=180s")
	c.kubectl("rollout", "restart", "deployment/web")
	c.useService()
	c.kubectl("get", "pods", "-A", "-o", "wide")

	for _, m := range []*machine{c.worker, c.control} {
		if before, err := c.containers(t.Context(), m); err != nil || len(before) == 0 {
			t.Errorf("%s: before the reset: containers %v, error %v", m.name, before, err)
		}
		c.step(m, "kubeadm", "reset", "--force", "--cri-socket=unix:///run/containerd/containerd.sock")
		left, err := c.containers(t.Context(), m)
		if err != nil || len(left) > 0 {
			t.Errorf("%s: kubeadm reset leaves the containers %v, error %v", m.name, left, err)
		}
	}
}

// useService runs pods on the worker, and reaches their Service, by its name, from the control plane's node.
func (c *cluster) useService() {
	c.t.Helper()
	if err := c.control.write(c.t.Context(), "/root/workload.yaml", workload, 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("apply", "-f", "/root/workload.yaml")
	c.kubectl("rollout", "status", "deployment/web", "--timeout=180s")
	c.eventually("the Service answers on the other node", func(ctx context.Context) error {
		output, err := c.fetch(ctx, c.control, "http://web.default.svc.cluster.local/headers")
		if err == nil && !strings.Contains(output, "User-Agent") {
			err = fmt.Errorf("it answers %q", output)
		}
		return err
	})
}

// upgrade changes the scheduler's flags in the cluster's configuration, and has kubeadm apply it: it waits until the scheduler's
// static pod has been replaced.
func (c *cluster) upgrade() {
	c.t.Helper()
	c.step(c.control, "bash", "-ec", `kubectl -n kube-system get configmap kubeadm-config -o json |
sed 's/scheduler: {}/scheduler:\\n  extraArgs:\\n  - name: v\\n    value: \\"1\\"/' | kubectl apply -f -`)
	for _, m := range []*machine{c.control, c.worker} {
		c.step(m, "kubeadm", "upgrade", "node", "--ignore-preflight-errors="+ignoredErrors(), "--patches=/etc/kubeadm-patches")
	}
	c.eventually("the scheduler has its new flag", func(ctx context.Context) error {
		_, err := c.control.run(ctx, "bash", "-c", `for process in /proc/[0-9]*/cmdline; do tr '\0' ' ' <"$process"; echo; done 2>/dev/null | grep '^kube-scheduler .*--v=1'`)
		return err
	})
}

// renew renews the control plane's certificates, and restarts its static pods as kubeadm's documentation says: their manifests
// are moved away until they have ended.
func (c *cluster) renew() {
	c.t.Helper()
	before, err := c.serial(c.t.Context())
	if err != nil || before == "" {
		c.t.Fatalf("the API server's certificate: %q %v", before, err)
	}
	c.step(c.control, "kubeadm", "certs", "renew", "all")
	c.step(c.control, "bash", "-c", "mkdir /etc/kubernetes/away && mv /etc/kubernetes/manifests/*.yaml /etc/kubernetes/away/")
	c.eventually("the control plane has ended", func(ctx context.Context) error {
		output, err := c.control.run(ctx, "bash", "-c", "ls -l /proc/*/exe 2>/dev/null | grep -E '/(kube-apiserver|etcd|kube-scheduler|kube-controller-manager)$' || true")
		if err == nil && strings.Contains(output, "->") {
			err = errors.New(output)
		}
		return err
	})
	c.step(c.control, "bash", "-c", "mv /etc/kubernetes/away/*.yaml /etc/kubernetes/manifests/ && rmdir /etc/kubernetes/away")
	c.eventually("the API server has the new certificate", func(ctx context.Context) error {
		after, err := c.serial(ctx)
		if err == nil && after == before {
			err = fmt.Errorf("the certificate's serial number is %q", after)
		}
		return err
	})
	// admin.conf is renewed, too.
	c.eventually("the API server answers", func(ctx context.Context) error {
		_, err := c.control.run(ctx, "kubectl", "get", "--raw=/readyz")
		return err
	})
	c.awaitNodes()
}
