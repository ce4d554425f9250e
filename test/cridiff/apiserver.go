package cridiff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/test/apiserver"
)

// apiServer is a kube-apiserver and its etcd, in a network namespace of their own, where the agent is too. Every user
// may do everything.
type apiServer struct {
	etcd, server *process
	client       kubernetes.Interface
	// uids are the pods' UIDs, each followed by that of the pod that was given: the server makes its own.
	uids []string
}

// serverTime bounds each wait for the API server, and for what an agent tells it.
const serverTime = 2 * time.Minute

// startServer starts them, waits until the API server is ready, and writes the node's kubeconfig. The site has it also
// after an error.
func (s *Site) startServer(ctx context.Context) error {
	files := apiserver.Files{Dir: s.Dir, Node: nodeName}
	if err := files.Write(); err != nil {
		return err
	}
	etcd, err := s.start("etcd", files.EtcdFlags()...)
	if err != nil {
		return err
	}
	s.api = &apiServer{etcd: etcd}
	pid := nodeAPI(etcd.cmd.Process.Pid)
	if err := s.api.until(ctx, "etcd is ready in a network namespace of its own", pid.hasEtcd); err != nil {
		return err
	}
	if s.api.server, err = s.start("kube-apiserver", files.ServerFlags()...); err != nil {
		return err
	}
	if s.api.client, err = kubernetes.NewForConfig(&rest.Config{
		Host: apiserver.URL, BearerToken: apiserver.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, // Only the test is there.
		Dial: func(_ context.Context, network, address string) (net.Conn, error) { return pid.dial(network, address) },
	}); err != nil {
		return err
	}
	return s.api.until(ctx, "the API server is ready", func(ctx context.Context) error {
		if err := s.api.client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		_, err := s.api.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
}

// hasEtcd returns nil once the etcd in the process's network namespace is ready.
func (pid nodeAPI) hasEtcd(ctx context.Context) error {
	if err := pid.isApart(); err != nil {
		return err
	}
	transport := &http.Transport{DialContext: func(_ context.Context, network, address string) (net.Conn, error) { return pid.dial(network, address) }}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, apiserver.EtcdURL+"/health", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s", resp.Status)
	}
	return nil
}

// kill ends the API server, then etcd.
func (a *apiServer) kill() error {
	if a == nil {
		return nil
	}
	return errors.Join(a.server.kill(), a.etcd.kill())
}

// until asks until the answer is nil, but not after the end of a server.
func (a *apiServer) until(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	for {
		last := ask(ctx)
		switch {
		case last == nil:
			return nil
		case a.etcd.ended() || a.server.ended():
			return fmt.Errorf("wait until %s: a server has ended: %w", what, last)
		}
		select {
		case <-time.After(pollPause / 5):
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %w", what, ctx.Err(), last)
		}
	}
}

// awaitNode waits until the agent has made its node, and it is ready.
func (a *apiServer) awaitNode(ctx context.Context) error {
	return a.until(ctx, "the node is ready", func(ctx context.Context) error {
		node, err := a.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", node.Status.Conditions)
	})
}

// create creates the pod on the node, in a new namespace.
func (a *apiServer) create(ctx context.Context, pod *v1.Pod) error {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
	if _, err := a.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	placed := pod.DeepCopy()
	placed.Spec.NodeName = nodeName
	created, err := a.client.CoreV1().Pods(pod.Namespace).Create(ctx, placed, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	a.uids = append(a.uids, string(created.UID), string(pod.UID))
	return nil
}

// pods returns the pods by the UID of the pod that was given, which is the namespace's name.
func (a *apiServer) pods(ctx context.Context) (map[types.UID]*v1.Pod, error) {
	list, err := a.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods := map[types.UID]*v1.Pod{}
	for i := range list.Items {
		pods[types.UID(list.Items[i].Namespace)] = &list.Items[i]
	}
	return pods, nil
}

// resize changes the resources of the pod's containers in place.
func (a *apiServer) resize(ctx context.Context, to *v1.Pod) error {
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	spec := map[string][]container{}
	for list, containers := range map[string][]v1.Container{"initContainers": to.Spec.InitContainers, "containers": to.Spec.Containers} {
		for i := range containers {
			spec[list] = append(spec[list], container{containers[i].Name, containers[i].Resources})
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = a.client.CoreV1().Pods(to.Namespace).Patch(ctx, to.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
	return err
}
