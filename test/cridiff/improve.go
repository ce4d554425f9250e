package cridiff

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// improved returns the response that the agent receives: that of a runtime with the features of a current containerd,
// and the node's cgroup driver, whose images have users.
func (s *Site) improved(method string, response []byte) ([]byte, error) {
	switch method {
	case "RuntimeConfig":
		if !s.Systemd {
			return response, nil
		}
		return proto.Marshal(&runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_SYSTEMD}})
	case "Status":
		var resp runtimeapi.StatusResponse
		if err := proto.Unmarshal(response, &resp); err != nil {
			return nil, err
		}
		resp.Features = &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}
		for _, h := range resp.GetRuntimeHandlers() {
			h.Features = &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}
		}
		return proto.Marshal(&resp)
	case "ImageStatus":
		var resp runtimeapi.ImageStatusResponse
		if err := proto.Unmarshal(response, &resp); err != nil {
			return nil, err
		}
		if resp.GetImage() == nil {
			return response, nil
		}
		setUser(resp.GetImage())
		return proto.Marshal(&resp)
	default:
		return response, nil
	}
}

// unchanged returns the message.
func unchanged(_ string, message []byte) ([]byte, error) { return message, nil }

// setUser gives an image named uid-NUMBER or user-NAME its user. Others have none.
func setUser(image *runtimeapi.Image) {
	for _, tag := range image.GetRepoTags() {
		name, _, _ := strings.Cut(tag[strings.LastIndexByte(tag, '/')+1:], ":")
		if text, ok := strings.CutPrefix(name, "uid-"); ok {
			if uid, err := strconv.ParseInt(text, 10, 64); err == nil {
				image.Uid, image.Username = &runtimeapi.Int64Value{Value: uid}, ""
			}
		}
		if user, ok := strings.CutPrefix(name, "user-"); ok {
			image.Uid, image.Username = nil, user
		}
	}
}
