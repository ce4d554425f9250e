package execconfig

import (
	"cmp"
	"errors"
	"fmt"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/imagepolicy"
)

// ImageAccess configures which pods may use an image that the node has. There are no flags, as with the kubelet.
type ImageAccess struct {
	// VerificationPolicy is imagePullCredentialsVerificationPolicy: NeverVerifyPreloadedImages. VerificationAllowlist
	// is preloadedImagesVerificationAllowlist.
	VerificationPolicy    kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy
	VerificationAllowlist []string
}

// supportedOfImageAccess are the fields of a KubeletConfiguration that set an ImageAccess.
var supportedOfImageAccess = []string{"imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist"}

func (a *ImageAccess) setDefaults() { a.VerificationPolicy = imagepolicy.NeverVerifyPreloadedImages }

func (a *ImageAccess) fromFile(c *kubeletconfigv1beta1.KubeletConfiguration) {
	a.VerificationPolicy = cmp.Or(c.ImagePullCredentialsVerificationPolicy, a.VerificationPolicy)
	a.VerificationAllowlist = c.PreloadedImagesVerificationAllowlist
}

func (a *ImageAccess) into(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.ImagePullCredentialsVerificationPolicy, c.PreloadedImagesVerificationAllowlist = a.VerificationPolicy, a.VerificationAllowlist
}

// check calls wrong for each invalid setting.
func (a *ImageAccess) check(wrong func(flag, field, reason string)) {
	_, err := imagepolicy.New(a.VerificationPolicy, a.VerificationAllowlist)
	switch {
	case errors.Is(err, imagepolicy.ErrPolicy):
		wrong("", "imagePullCredentialsVerificationPolicy", fmt.Sprintf("it is %q; want %s, %s, %s or %s", a.VerificationPolicy,
			imagepolicy.NeverVerify, imagepolicy.NeverVerifyPreloadedImages, imagepolicy.NeverVerifyAllowlistedImages, imagepolicy.AlwaysVerify))
	case errors.Is(err, imagepolicy.ErrAllowlist):
		wrong("", "preloadedImagesVerificationAllowlist", fmt.Sprintf("it needs imagePullCredentialsVerificationPolicy to be %s",
			imagepolicy.NeverVerifyAllowlistedImages))
	case err != nil:
		wrong("", "preloadedImagesVerificationAllowlist", err.Error())
	}
}
