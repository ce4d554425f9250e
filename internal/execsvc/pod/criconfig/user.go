package criconfig

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// ImageUser is the user of an image.
type ImageUser struct {
	// UID is nil if the image names its user or names none.
	UID *int64
	// Name is empty if the image has a UID or names no user. With neither it runs as root.
	Name string
}

// ImageUserOf returns the user that the runtime reports for an image.
func ImageUserOf(image *runtimeapi.Image) *ImageUser {
	switch {
	case image.GetUid() != nil:
		return &ImageUser{UID: ptr.To(image.GetUid().GetValue())}
	case image.GetUsername() != "":
		return &ImageUser{Name: image.GetUsername()}
	default:
		return &ImageUser{UID: ptr.To[int64](0)}
	}
}

// setUser sets the container's user, and rejects root if the pod does.
func setUser(out *runtimeapi.LinuxContainerSecurityContext, sc *v1.SecurityContext, psc *v1.PodSecurityContext, image *ImageUser) error {
	user := first(sc.RunAsUser, psc.RunAsUser)
	nonRoot := ptr.Deref(first(sc.RunAsNonRoot, psc.RunAsNonRoot), false)
	if nonRoot {
		if err := verifyNonRoot(user, image); err != nil {
			return err
		}
	}
	out.RunAsUser = int64Value(user)
	if user == nil && image != nil {
		out.RunAsUser, out.RunAsUsername = int64Value(image.UID), image.Name
	}
	group := first(sc.RunAsGroup, psc.RunAsGroup)
	if group != nil && out.RunAsUser == nil && out.RunAsUsername == "" {
		return errors.New("runAsGroup needs a runAsUser: the image's user isn't known")
	}
	out.RunAsGroup = int64Value(group)
	return nil
}

func verifyNonRoot(user *int64, image *ImageUser) error {
	switch {
	case user != nil && *user == 0:
		return errors.New("container's runAsUser breaks non-root policy")
	case user != nil:
		return nil
	case image == nil:
		return errors.New("container has runAsNonRoot and the image's user isn't known: set runAsUser")
	case image.Name != "":
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root", image.Name)
	case ptr.Deref(image.UID, 0) == 0:
		return errors.New("container has runAsNonRoot and image will run as root")
	default:
		return nil
	}
}
