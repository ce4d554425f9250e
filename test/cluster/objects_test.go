package cluster

import (
	"context"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// The objects that pods refer to arrive with their changes, under the node authorizer, which allows a node no
// others.
func TestObjects(t *testing.T) {
	n := newNode(t, "objects")
	client := plane.client(t)
	s, objects := n.watch(t), n.watchObjects(t)
	s.ready(t)
	check(t, "a ConfigMap that a new pod refers to: PUT", func(t *testing.T) {
		putConfigMap(t, client, "settings", "1")
		n.create(t, client, "user", func(pod *corev1.Pod) { useConfigMap(pod, "settings") })
		s.expect(t, "ADD user")
		objects.await(t, configMap("settings"), "1")
	})
	check(t, "its change: PUT", func(t *testing.T) {
		putConfigMap(t, client, "settings", "2")
		objects.await(t, configMap("settings"), "2")
	})
	check(t, "a Secret that doesn't exist: MISSING, then PUT", func(t *testing.T) {
		n.create(t, client, "guest", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "token"}}}}
		})
		s.expect(t, "ADD guest")
		objects.await(t, secret("token"), missing)
		putSecret(t, client, "token", "1")
		objects.await(t, secret("token"), "1")
	})
	check(t, "its change: PUT", func(t *testing.T) {
		putSecret(t, client, "token", "2")
		objects.await(t, secret("token"), "2")
	})
	check(t, "its deletion: MISSING", func(t *testing.T) {
		rig.Must(t, client.CoreV1().Secrets(namespace).Delete(t.Context(), "token", metav1.DeleteOptions{}))
		objects.await(t, secret("token"), missing)
	})
	check(t, "the pod and its objects are removed: REMOVE", func(t *testing.T) {
		vanish(t, client, "user")
		s.expectEnd(t, "user")
		objects.await(t, configMap("settings"), unknown)
	})
	check(t, "the node may list its own pods, and read no objects except theirs", func(t *testing.T) {
		putSecret(t, client, "foreign", "1")
		config := plane.ClientConfig(plane.URL, rig.Get(os.ReadFile(n.credentials))(t))
		httpClient := rig.Get(rest.HTTPClientFor(config))(t)
		defer utilnet.CloseIdleConnectionsFor(httpClient.Transport)
		own := rig.Get(kubernetes.NewForConfigAndClient(config, httpClient))(t).CoreV1()
		rig.Get(own.Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.name).String()}))(t)
		if _, err := own.Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a list of all pods gives the error %v; want that it is forbidden", err)
		}
		if _, err := own.Secrets(namespace).Get(t.Context(), "foreign", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a Secret of no pod gives the error %v; want that it is forbidden", err)
		}
	})
}

// The values of missing objects in held.
const (
	unknown = "(no pod refers to it)"
	missing = "(missing)"
)

func configMap(name string) *podconfigv1.ObjectRef {
	return &podconfigv1.ObjectRef{Kind: podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP, Name: name}
}

func secret(name string) *podconfigv1.ObjectRef {
	return &podconfigv1.ObjectRef{Kind: podconfigv1.ObjectKind_OBJECT_KIND_SECRET, Name: name}
}

// useConfigMap mounts the ConfigMap in the pod.
func useConfigMap(pod *corev1.Pod, name string) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/settings"}}
}

// putConfigMap creates or changes the ConfigMap, so that it has the value. putSecret does the same.
func putConfigMap(t *testing.T, client kubernetes.Interface, name, value string) {
	t.Helper()
	all := client.CoreV1().ConfigMaps(namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	_, err := all.Create(t.Context(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = all.Update(t.Context(), object, metav1.UpdateOptions{})
	}
	rig.Must(t, err)
}

func putSecret(t *testing.T, client kubernetes.Interface, name, value string) {
	t.Helper()
	all := client.CoreV1().Secrets(namespace)
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"value": []byte(value)}}
	_, err := all.Create(t.Context(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = all.Update(t.Context(), object, metav1.UpdateOptions{})
	}
	rig.Must(t, err)
}

// objectStream is a consumer of WatchObjects.
type objectStream struct {
	messages <-chan *podconfigv1.WatchObjectsResponse
	daemon   *control.Process
	// held are the values of objects by kind and name; byNamespace: by namespace and name.
	held        map[string]string
	byNamespace bool
}

// watchObjects opens a stream that ends with the test.
func (n *node) watchObjects(t *testing.T) *objectStream {
	t.Helper()
	messages := receive(t, func(ctx context.Context) (grpc.ServerStreamingClient[podconfigv1.WatchObjectsResponse], error) {
		return n.config.WatchObjects(ctx, &podconfigv1.WatchObjectsRequest{
			Consumer: "test", Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
		}, grpc.WaitForReady(true))
	})
	return &objectStream{messages: messages, daemon: n.daemon, held: map[string]string{}}
}

// await applies updates until the object has the value.
func (s *objectStream) await(t *testing.T, ref *podconfigv1.ObjectRef, want string) {
	t.Helper()
	timeout := time.NewTimer(control.Bound)
	defer timeout.Stop()
	for {
		got, ok := s.held[keyOf(ref)]
		if !ok {
			got = unknown
		}
		if got == want {
			return
		}
		select {
		case m, ok := <-s.messages:
			if !ok {
				t.Fatalf("the stream of objects ended; %s is %s", keyOf(ref), got)
			}
			rig.Must(t, s.apply(m.GetUpdate()))
		case <-timeout.C:
			t.Fatalf("%s is %s for %v; want %s; the output of podconfigd ends with:\n%s", keyOf(ref), got, control.Bound, want, s.daemon.Tail())
		}
	}
}

func keyOf(ref *podconfigv1.ObjectRef) string { return ref.GetKind().String() + " " + ref.GetName() }

// apply applies an update to held. A SET comes only at the start, when held is empty.
func (s *objectStream) apply(update *podconfigv1.ObjectUpdate) error {
	for _, o := range update.GetObjects() {
		key := keyOf(o.GetRef())
		if s.byNamespace {
			key = o.GetRef().GetNamespace() + "/" + o.GetRef().GetName()
		}
		switch update.GetOp() {
		case podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE:
			delete(s.held, key)
		case podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING:
			s.held[key] = missing
		default:
			value, err := valueOf(o)
			if err != nil {
				return err
			}
			s.held[key] = value
		}
	}
	return nil
}

func valueOf(o *podconfigv1.Object) (string, error) {
	if o.GetRef().GetKind() == podconfigv1.ObjectKind_OBJECT_KIND_SECRET {
		var secret corev1.Secret
		err := secret.Unmarshal(o.GetProtobuf())
		return string(secret.Data["value"]), err
	}
	var configMap corev1.ConfigMap
	err := configMap.Unmarshal(o.GetProtobuf())
	return configMap.Data["value"], err
}
