package csisanity

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/podstream/podstream/internal/roottest"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
)

// size is that of the suite's volumes: images are sparse files, but ext4's tables aren't.
const size = 32 << 20

// variant is a kind of driver.
type variant struct {
	name    string
	options csidriver.Options
	// access is the type of the volumes: mount or block.
	access string
}

// variants cover what the driver can be.
var variants = []variant{
	{"directories", csidriver.Options{AttachRequired: true, MaxVolumes: 8, Topology: map[string]string{"zone": "a"}}, "mount"},
	{"directories without staging and attachment", csidriver.Options{Capabilities: []csidriver.Capability{csidriver.Stats}}, "mount"},
	{"images", csidriver.Options{Backing: csidriver.Image, AttachRequired: true}, "mount"},
	{"block volumes", csidriver.Options{Backing: csidriver.Image}, "block"},
}

// TestSanity runs the suite for each variant. It mounts, so it needs root, and for images loop devices and ext4. csi-test skips the specs
// of testdata/skips.txt, and no others.
func TestSanity(t *testing.T) {
	roottest.Need(t, "mounting")
	for _, v := range variants {
		able := true
		if v.options.Backing == csidriver.Image {
			able = false
			t.Run("can have "+v.name, func(t *testing.T) {
				roottest.Able(t, csidriver.CheckImages(t.Context()))
				able = true
			})
		}
		if !able {
			continue
		}
		if v.options.Backing == csidriver.Image && v.access == "mount" && csidriver.CheckResize() != nil {
			v.name += " that can't grow"
			v.options.Capabilities = []csidriver.Capability{
				csidriver.Stage, csidriver.Stats, csidriver.MountGroup, csidriver.MultiWriter, csidriver.Health,
			}
		}
		ginkgo.Describe(v.name, ginkgo.Ordered, func() { v.register(t) })
	}
	ginkgo.ReportAfterSuite("the skipped specs", func(r ginkgo.Report) {
		if len(r.SuiteConfig.FocusStrings)+len(r.SuiteConfig.SkipStrings) == 0 {
			gomega.Expect(checkSkips(r.SpecReports)).To(gomega.Succeed())
		}
	})
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "csi-test's sanity suite")
}

// register adds the specs of a variant. Its driver runs from the first to the last of them.
func (v variant) register(t *testing.T) {
	dir, err := os.MkdirTemp("", "sanity") // t.TempDir is too long for the name of a socket.
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { os.RemoveAll(dir) })
	v.options.Dir = filepath.Join(dir, "state")
	config := sanity.NewTestConfig()
	config.Address = "unix://" + filepath.Join(v.options.Dir, "csi.sock")
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	config.TestVolumeSize, config.TestVolumeExpandSize = size, 2*size
	config.TestVolumeAccessType = v.access
	config.TestNodeVolumeAttachLimit = v.options.MaxVolumes > 0
	config.SecretsFile = filepath.Join(dir, "secrets.yaml")
	gomega.NewWithT(t).Expect(os.WriteFile(config.SecretsFile, []byte(secrets), 0o600)).To(gomega.Succeed())

	var driver *csidriver.Driver
	ginkgo.BeforeAll(func() {
		var err error
		driver, err = csidriver.Start(v.options)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
	})
	suite := sanity.GinkgoTest(&config)
	ginkgo.AfterAll(func() {
		suite.Finalize()
		if driver == nil {
			return
		}
		driver.Stop()
		log, err := calllog.Read(driver.Options().Log)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(calllog.Overlaps(log.Calls)).To(gomega.BeEmpty())
		gomega.Expect(calllog.NothingLeft(log.Calls)).To(gomega.BeEmpty())
	})
}

// secrets are sent with each call that can have them.
const secrets = `
CreateVolumeSecret: {key: value-of-a-secret}
DeleteVolumeSecret: {key: value-of-a-secret}
ControllerPublishVolumeSecret: {key: value-of-a-secret}
ControllerUnpublishVolumeSecret: {key: value-of-a-secret}
ControllerValidateVolumeCapabilitiesSecret: {key: value-of-a-secret}
NodeStageVolumeSecret: {key: value-of-a-secret}
NodePublishVolumeSecret: {key: value-of-a-secret}
ControllerExpandVolumeSecret: {key: value-of-a-secret}
`
