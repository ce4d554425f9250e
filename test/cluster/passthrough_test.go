package cluster

import (
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// relayTLS starts a podconfigd that relays the API server's name to the target, and returns its address.
func relayTLS(t *testing.T, name, target string) string {
	t.Helper()
	port := rig.Get(control.FreePorts(1))(t)[0]
	address := fmt.Sprintf("%s:%d", control.Loopback, port)
	dir := t.TempDir()
	rig.Must(t, os.Mkdir(dir+"/manifests", 0o700))
	p := rig.Get(control.StartProcess(name, dir+"/log", podconfigd, "--root-dir="+dir+"/root", "--listen=unix://"+dir+"/s", "--pod-manifest-path="+dir+"/manifests",
		"--hostname-override="+name, "--tls-passthrough-listen="+address, "--tls-passthrough="+control.ServerName+"="+target))(t)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return address
}

// Two tiers of podconfigd relay a node's TLS connections to the API server, without a key: the API server sees the node's own
// certificate, and NodeRestriction holds.
func TestPassthrough(t *testing.T) {
	region := relayTLS(t, "region", rig.Get(url.Parse(plane.URL))(t).Host)
	site := relayTLS(t, "site", region)
	kube := plane.client(t)
	n := &node{name: "behind", user: "system:node:behind", group: "system:nodes", server: "https://" + site, serverName: control.ServerName}
	n.launch(t, time.Now().Add(control.CertificateLife))
	s, objects := n.watch(t), n.watchObjects(t)
	check(t, "its pods and ConfigMaps arrive", func(t *testing.T) {
		s.ready(t)
		n.create(t, kube, "behind-a", func(pod *corev1.Pod) { useConfigMap(pod, "behind") })
		s.expect(t, "ADD behind-a")
		putConfigMap(t, kube, "behind", "1")
		objects.await(t, configMap("behind"), "1")
	})
	check(t, "the node may change its own Node, and not another's", func(t *testing.T) {
		config := rig.Get(clientcmd.BuildConfigFromFlags("", n.path("kubeconfig")))(t)
		httpClient := rig.Get(rest.HTTPClientFor(config))(t)
		client := rig.Get(kubernetes.NewForConfigAndClient(config, httpClient))(t)
		for name, want := range map[string]bool{"behind": true, "other": false} {
			_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if want && err != nil || !want && !apierrors.IsForbidden(err) {
				t.Errorf("Node %s: %v", name, err)
			}
		}
		httpClient.CloseIdleConnections()
		rig.Must(t, kube.CoreV1().Nodes().Delete(t.Context(), "behind", metav1.DeleteOptions{}))
	})
	check(t, "the API server restarts, and the node's watch goes on", func(t *testing.T) {
		plane.stop(t)
		plane.resume(t)
		n.create(t, plane.client(t), "behind-b")
		s.expect(t, "ADD behind-b")
	})
	for _, pod := range []string{"behind-a", "behind-b"} {
		vanish(t, plane.client(t), pod)
	}
}
