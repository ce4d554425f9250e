package sidebyside

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// pod returns the manifest of a pod with one container, on the node. Its label app has its name.
func pod(namespace, name, container, args, more string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, labels: {app: %[1]s}}
spec:
  nodeName: main
  terminationGracePeriodSeconds: 2
  containers:
  - name: %[3]s
    image: %[4]s
    imagePullPolicy: Never
    args: [%[5]s]
    %[6]s
`, name, namespace, container, toolsImage, args, more)
}

// webPod returns the manifest of the pod web: one container prints hello and then what it reads, one serves HTTP.
func webPod(namespace string) string {
	return pod(namespace, "web", "app", `seq, append, /dev/stdout, hello, ";", stdin`,
		fmt.Sprintf("stdin: true\n  - {name: side, image: %q, imagePullPolicy: Never, args: [serve, \":80\"]}", devnode.SampleImage))
}

// servers are those in place of the public ones that commands name.
type servers struct{ web, hub *httptest.Server }

func startServers(t *testing.T) *servers {
	t.Helper()
	s := &servers{
		web: httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, webPod(strings.Split(r.URL.Path, "/")[1]))
		})),
		hub: httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)))),
	}
	t.Cleanup(s.web.Close)
	t.Cleanup(s.hub.Close)
	image := rig.Get(devnode.BuildSampleImage(filepath.Join(here.BinDir(), "sample"), "serve"))(t)
	rig.Must(t, remote.Write(rig.Get(name.ParseReference(s.image()))(t), image, remote.WithContext(t.Context())))
	return s
}

// image is the name of the image that is pulled.
func (s *servers) image() string {
	return strings.TrimPrefix(s.hub.URL, "http://") + "/library/nginx:1.27"
}

// newUser returns a user with the files. The environment leads kubectl and podctl to the node.
func newUser(t *testing.T, s *servers, p *podmanPlace, namespace string) *user {
	t.Helper()
	u := &user{t: t, dir: t.TempDir(), namespace: namespace}
	u.programs = map[string][]string{
		"kubectl": {filepath.Join(here.tools, "kubectl")},
		"crictl":  {filepath.Join(here.tools, "crictl"), "--runtime-endpoint=" + here.machine.Endpoint(), "--timeout=60s"},
		"podman":  p.program(u.dir),
		"podctl":  {filepath.Join(here.BinDir(), "podctl")},
	}
	u.env = append(slices.Clone(p.env),
		"HOME="+u.dir, "KUBECONFIG="+u.path("kubeconfig"), "PODCTL_CONFIG="+u.path("podctl.yaml"), "EDITOR="+u.path("editor"),
		"KUBE_EDITOR="+u.path("editor"), "SSL_CERT_FILE="+u.path("ca.pem"), "TERM=dumb",
		"PODSTREAM_PODCONFIG_ENDPOINT="+here.node.ConfigEndpoint(), "PODSTREAM_PODEXEC_ENDPOINT="+here.node.ExecEndpoint())
	label := "labels: {app: shop}}\n"
	for name, text := range map[string]string{
		"podctl.yaml": fmt.Sprintf("apiVersion: podstream.io/v1alpha1\nkind: PodctlConfig\ncontexts:\n- {name: node-2, podconfigEndpoint: %q, podexecEndpoint: %q}\n",
			here.node.ConfigEndpoint(), here.node.ExecEndpoint()),
		"ca.pem":        string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.web.Certificate().Raw})),
		"editor":        "#!/bin/sh\nexec sed -i 's/app: web/app: edited/' \"$1\"\n",
		"web.yaml":      webPod(namespace),
		"data/file":     "copied from " + namespace + "\n",
		"shop/old.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old, namespace: " + namespace + ", " + label,
		"shop/cart.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: " + namespace + ", " + label + "data: {a: b}\n---\n" +
			pod(namespace, "shop", "cart", "sleep", "envFrom: [{configMapRef: {name: settings}}]"),
	} {
		u.write(name, text)
	}
	return u
}

// makeContexts writes the kubeconfig, which has a context node-2.
func (u *user) makeContexts() {
	u.t.Helper()
	raw := []string{"kubectl", "--kubeconfig", here.Kubeconfig, "config", "view", "--raw"}
	u.write("kubeconfig", u.must(append(raw, "--flatten")...))
	cluster, name := u.must(append(raw, "-o", "jsonpath={.clusters[0].name}")...), u.must(append(raw, "-o", "jsonpath={.users[0].name}")...)
	u.must("kubectl", "config", "set-context", "node-2", "--cluster="+cluster, "--user="+name)
}
