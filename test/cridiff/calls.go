package cridiff

import (
	"errors"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Call is a call of a method in recorded.
type Call struct {
	// Method is the method's name, for example CreateContainer.
	Method            string
	Request, Response []byte
	// Err is the call's error. Empty: it succeeded.
	Err string
	// turn is the call's place among the others of its Proxy.
	turn int
}

// unended is the error of a call that hasn't ended.
const unended = "it hasn't ended"

// messages are a method's request and response.
type messages func() (req, resp proto.Message)

// recorded are the methods that change something in the runtime, or run something in a container. Calls of other methods
// aren't compared: they read, as often as an agent wants, and Exec, Attach and PortForward are what clients ask for.
var recorded = map[string]messages{
	"RunPodSandbox": func() (req, resp proto.Message) {
		return &runtimeapi.RunPodSandboxRequest{}, &runtimeapi.RunPodSandboxResponse{}
	},
	"StopPodSandbox": func() (req, resp proto.Message) {
		return &runtimeapi.StopPodSandboxRequest{}, &runtimeapi.StopPodSandboxResponse{}
	},
	"RemovePodSandbox": func() (req, resp proto.Message) {
		return &runtimeapi.RemovePodSandboxRequest{}, &runtimeapi.RemovePodSandboxResponse{}
	},
	"CreateContainer": func() (req, resp proto.Message) {
		return &runtimeapi.CreateContainerRequest{}, &runtimeapi.CreateContainerResponse{}
	},
	"StartContainer": func() (req, resp proto.Message) {
		return &runtimeapi.StartContainerRequest{}, &runtimeapi.StartContainerResponse{}
	},
	"StopContainer": func() (req, resp proto.Message) {
		return &runtimeapi.StopContainerRequest{}, &runtimeapi.StopContainerResponse{}
	},
	"RemoveContainer": func() (req, resp proto.Message) {
		return &runtimeapi.RemoveContainerRequest{}, &runtimeapi.RemoveContainerResponse{}
	},
	"ExecSync": func() (req, resp proto.Message) {
		return &runtimeapi.ExecSyncRequest{}, &runtimeapi.ExecSyncResponse{}
	},
	"ReopenContainerLog": func() (req, resp proto.Message) {
		return &runtimeapi.ReopenContainerLogRequest{}, &runtimeapi.ReopenContainerLogResponse{}
	},
	"UpdateContainerResources": func() (req, resp proto.Message) {
		return &runtimeapi.UpdateContainerResourcesRequest{}, &runtimeapi.UpdateContainerResourcesResponse{}
	},
	"UpdatePodSandboxResources": func() (req, resp proto.Message) {
		return &runtimeapi.UpdatePodSandboxResourcesRequest{}, &runtimeapi.UpdatePodSandboxResourcesResponse{}
	},
	"CheckpointContainer": func() (req, resp proto.Message) {
		return &runtimeapi.CheckpointContainerRequest{}, &runtimeapi.CheckpointContainerResponse{}
	},
	"PullImage": func() (req, resp proto.Message) {
		return &runtimeapi.PullImageRequest{}, &runtimeapi.PullImageResponse{}
	},
	"RemoveImage": func() (req, resp proto.Message) {
		return &runtimeapi.RemoveImageRequest{}, &runtimeapi.RemoveImageResponse{}
	},
	"UpdateRuntimeConfig": func() (req, resp proto.Message) {
		return &runtimeapi.UpdateRuntimeConfigRequest{}, &runtimeapi.UpdateRuntimeConfigResponse{}
	},
}

// messages decodes the request and the response. Of a failed call the response is empty.
func (c *Call) messages() (req, resp proto.Message, err error) {
	of := recorded[c.Method]
	if of == nil {
		return nil, nil, errors.New("there is no trace of this method")
	}
	req, resp = of()
	return req, resp, errors.Join(proto.Unmarshal(c.Request, req), proto.Unmarshal(c.Response, resp))
}
