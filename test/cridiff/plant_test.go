//go:build kubelet

package cridiff

import (
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestPlantedRequest: a field that podexecd sends with another value is found, and nothing else.
func TestPlantedRequest(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "app"}}}}
	pod.APIVersion, pod.Kind, pod.Name, pod.Namespace, pod.UID = "v1", "Pod", "web", "shop", "planted"
	pods := []*v1.Pod{pod}
	planted := playAt(t, Site{Plant: plant}, Podstream, pods, alone)
	table := Compare(pods, play(t, Node{}, Kubelet, pods), planted)
	if len(table.Unexplained) != 1 || table.Unexplained[0].Path != "config.linux.resources.oomScoreAdj" {
		t.Errorf("unexplained: %v; want the planted oomScoreAdj", table.Unexplained)
	}
}

// plant makes the containers less likely to be killed.
func plant(method string, request []byte) ([]byte, error) {
	if method != "CreateContainer" {
		return request, nil
	}
	var req runtimeapi.CreateContainerRequest
	if err := proto.Unmarshal(request, &req); err != nil {
		return nil, err
	}
	req.GetConfig().GetLinux().GetResources().OomScoreAdj--
	return proto.Marshal(&req)
}
