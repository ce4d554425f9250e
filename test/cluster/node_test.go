package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// namespace is the namespace of all pods.
const namespace = metav1.NamespaceDefault

// node is a podconfigd with the credentials of its node's kubelet, or of a separate role.
type node struct {
	// name is the node's name. user and group are its identity at the API server.
	name, user, group string
	// dir has all its files. credentials is the file of its certificate and key.
	dir, credentials string
	// args are additional arguments, and manifests is the directory of static pods. Empty: none.
	args      []string
	manifests string
	// server is the URL of the API server. Empty: the plane's.
	server string
	// serverName is the name that the server's certificate must have. Empty: that of the URL.
	serverName string
	// program is the path of podconfigd. Empty: the one that all others run.
	program string
	daemon  *control.Process
	config  podconfigv1.PodConfigServiceClient
}

// newNode starts podconfigd as a new node.
func newNode(t *testing.T, name string) *node {
	t.Helper()
	return newNodeWith(t, name, "")
}

// newNodeWith is newNode with a directory of static pods.
func newNodeWith(t *testing.T, name, manifests string) *node {
	t.Helper()
	n := &node{name: name, user: "system:node:" + name, group: "system:nodes", manifests: manifests}
	n.launch(t, time.Now().Add(control.CertificateLife))
	return n
}

// launch starts it for the first time, with a certificate that expires at notAfter. It ends with the test.
func (n *node) launch(t *testing.T, notAfter time.Time) {
	t.Helper()
	plane.client(t)                              // the server has to be there
	n.dir = rig.Get(os.MkdirTemp("", "node"))(t) // short, as it holds a socket
	t.Cleanup(func() { _ = os.RemoveAll(n.dir) })
	n.credentials = n.path("node.pem")
	n.rotate(t, notAfter)
	rig.Must(t, plane.Authority.WriteKubeconfigFor(n.path("kubeconfig"), cmp.Or(n.server, plane.URL), n.serverName, n.credentials))
	conn := rig.Get(grpc.NewClient("unix://"+n.path("socket"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: control.PollInterval, MaxDelay: control.PollInterval},
			MinConnectTimeout: 5 * time.Second,
		})))(t)
	t.Cleanup(func() { _ = conn.Close() })
	n.config = podconfigv1.NewPodConfigServiceClient(conn)
	n.start(t)
	t.Cleanup(func() {
		if err := n.daemon.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the output of podconfigd ends with:\n%s", n.daemon.Tail())
		}
	})
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// rotate replaces the certificate.
func (n *node) rotate(t *testing.T, notAfter time.Time) {
	t.Helper()
	credentials := rig.Get(plane.Authority.Issue(n.user, n.group, notAfter))(t)
	rig.Must(t, control.ReplaceFile(n.credentials, credentials))
}

// start starts podconfigd, for the first time or after its end.
func (n *node) start(t *testing.T) {
	t.Helper()
	args := append([]string{"--root-dir=" + n.path("root"), "--listen=unix://" + n.path("socket"), "--hostname-override=" + n.name,
		"--pod-manifest-path=" + n.manifests, "--kubeconfig=" + n.path("kubeconfig")}, n.args...)
	n.daemon = rig.Get(control.StartProcess("podconfigd", n.path("log"), cmp.Or(n.program, podconfigd), args...))(t)
}

// create creates a pod on the node, as if the scheduler had placed it.
func (n *node) create(t *testing.T, client kubernetes.Interface, name string, with ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	return createOn(t, n.name, client, name, with...)
}

func createOn(t *testing.T, node string, client kubernetes.Interface, name string, with ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"version": "1"}},
		Spec: corev1.PodSpec{
			NodeName:                     node,
			AutomountServiceAccountToken: new(false),
			Containers:                   []corev1.Container{{Name: "main", Image: "registry.invalid/main:1"}},
		},
	}
	for _, f := range with {
		f(pod)
	}
	return rig.Get(client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
}

// bind places a pod that was created without a node, as the scheduler does.
func bind(t *testing.T, client kubernetes.Interface, name, node string) {
	t.Helper()
	rig.Must(t, client.CoreV1().Pods(namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

// relabel changes the pod's label "version".
func relabel(t *testing.T, client kubernetes.Interface, name, version string) {
	t.Helper()
	pods := client.CoreV1().Pods(namespace)
	pod := rig.Get(pods.Get(t.Context(), name, metav1.GetOptions{}))(t)
	pod.Labels["version"] = version
	rig.Get(pods.Update(t.Context(), pod, metav1.UpdateOptions{}))(t)
}

// remove deletes the pod with its grace period. vanish deletes it at once, as the kubelet does when its
// containers have ended.
func remove(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	rig.Must(t, client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func vanish(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	rig.Must(t, client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

// source returns podconfigd's status of its source api.
func (n *node) source(ctx context.Context) (*podconfigv1.Source, error) {
	resp, err := n.config.ListSources(ctx, &podconfigv1.ListSourcesRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	if len(resp.GetSources()) != 1 || resp.GetSources()[0].GetName() != "api" {
		return nil, fmt.Errorf("the sources are %v; want only api", resp.GetSources())
	}
	return resp.GetSources()[0], nil
}

// awaitSource waits until the source has an error, or no error, and the given number of pods.
func (n *node) awaitSource(t *testing.T, failing bool, pods int) {
	t.Helper()
	rig.Must(t, control.Until(t.Context(), n.daemon, fmt.Sprintf("the source fails is %t, with %d pods", failing, pods), func(ctx context.Context) error {
		s, err := n.source(ctx)
		if err != nil {
			return err
		}
		if (s.GetLastError() != "") != failing || int(s.GetPodCount()) != pods {
			return fmt.Errorf("%w: %v", control.ErrNotYet, s)
		}
		return nil
	}))
}

// pod returns the pod of that name.
func (n *node) pod(t *testing.T, name string) *podconfigv1.Pod {
	t.Helper()
	return rig.Get(n.config.GetPod(t.Context(), &podconfigv1.GetPodRequest{
		Ref: &podconfigv1.PodRef{Namespace: namespace, Name: name}, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
	}))(t).GetPod()
}
