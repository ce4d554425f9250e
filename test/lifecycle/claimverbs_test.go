package lifecycle

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// TestVolumesOfClaims: the data of a static pod's claim outlives its manifest, is listed, exported, removed, imported, and read
// by a pod again. While a pod uses the volume, or its claim is in the stream, it isn't removed. An import that podexecd's kill
// breaks leaves nothing.
func TestVolumesOfClaims(t *testing.T) {
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		lines := b.Path("podexecd", "claims", "default", "data", "lines")
		has := func(want string) {
			t.Helper()
			eventually(t, "the lines are "+want, func() error {
				data, err := os.ReadFile(lines)
				if got := strings.Join(strings.Fields(string(data)), " "); got != want {
					return fmt.Errorf("the lines are %q, %w", got, err)
				}
				return nil
			})
		}
		list := func() []*podexecv1.Volume {
			t.Helper()
			resp, err := b.Exec.ListVolumes(t.Context(), &podexecv1.ListVolumesRequest{})
			check(t, err)
			return resp.GetVolumes()
		}
		remove := func() error {
			_, err := b.Exec.RemoveVolume(t.Context(), &podexecv1.RemoveVolumeRequest{Name: "data"})
			return err
		}
		check(t, b.Write("claim.yaml", dataClaim))
		first := b.run(t, claimer("one"))
		first.awaitReady()
		has("one")
		used := list()
		if len(used) != 1 || used[0].GetNamespace() != "default" || used[0].GetName() != "data" || !used[0].GetClaimed() || used[0].GetUnsettled() ||
			len(used[0].GetUsedBy()) != 1 || !strings.HasPrefix(used[0].GetUsedBy()[0].GetName(), first.name) || used[0].GetFiles() != 1 || used[0].SizeBytes == nil {
			t.Fatalf("while the pod runs: %v", used)
		}
		if err := remove(); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "default/"+first.name) {
			t.Errorf("the removal of a volume in use: %v; want FAILED_PRECONDITION, with the pod", err)
		}
		if err := b.importVolume(t, archiveOfLines(t, "evil"), true); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("an import into a volume in use: %v", err)
		}
		check(t, b.Remove("claim.yaml"))
		first.remove()
		first.awaitGone()
		eventually(t, "nothing names the volume", func() error {
			if v := list(); len(v) != 1 || v[0].GetClaimed() || len(v[0].GetUsedBy()) > 0 {
				return fmt.Errorf("volumes are %v", v)
			}
			return nil
		})
		has("one")

		archive := b.exportVolume(t)
		check(t, remove())
		if v := list(); len(v) != 0 {
			t.Errorf("after the removal: %v", v)
		}
		if err := remove(); status.Code(err) != codes.NotFound {
			t.Errorf("the second removal: %v; want NOT_FOUND", err)
		}
		check(t, b.importVolume(t, archive, false))
		has("one")
		if err := b.importVolume(t, archive, false); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "isn't empty") {
			t.Errorf("an import over content: %v", err)
		}
		b.breakImport(t)
		has("one")

		check(t, b.Write("claim.yaml", dataClaim))
		second := b.run(t, claimer("two"))
		second.awaitReady()
		has("one two")
		check(t, b.Remove("claim.yaml"))
		second.remove()
		second.awaitGone()
	})
}

func archiveOfLines(t *testing.T, line string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	check(t, w.WriteHeader(&tar.Header{Name: "lines", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(line))}))
	_, err := io.WriteString(w, line)
	check(t, err)
	check(t, w.Close())
	return out.Bytes()
}

func (b *bench) exportVolume(t *testing.T) []byte {
	t.Helper()
	stream, err := b.Exec.ExportVolume(t.Context(), &podexecv1.ExportVolumeRequest{Name: "data"})
	check(t, err)
	var data []byte
	for {
		m, err := stream.Recv()
		check(t, err)
		data = append(data, m.GetData()...)
		if end := m.GetEnd(); end != nil {
			if end.GetEntries() != 2 || end.GetLeftOut() != 0 {
				t.Errorf("the archive has %v; want the directory and a file", end)
			}
			return data
		}
	}
}

// beginImport sends a part of an import.
func (b *bench) beginImport(t *testing.T, data []byte, replace bool) podexecv1.PodExecService_ImportVolumeClient {
	t.Helper()
	stream, err := b.Exec.ImportVolume(t.Context())
	check(t, err)
	for _, m := range []*podexecv1.ImportVolumeRequest{
		{Message: &podexecv1.ImportVolumeRequest_Start{Start: &podexecv1.ImportStart{Name: "data", Replace: replace}}},
		{Message: &podexecv1.ImportVolumeRequest_Data{Data: data}},
	} {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return stream
}

func (b *bench) importVolume(t *testing.T, data []byte, replace bool) error {
	t.Helper()
	stream := b.beginImport(t, data, replace)
	end := &podexecv1.ImportVolumeRequest{Message: &podexecv1.ImportVolumeRequest_DataClosed{DataClosed: true}}
	if err := stream.Send(end); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	_, err := stream.CloseAndRecv()
	return err
}

// breakImport kills podexecd while it has all of an archive but its end, and starts it again. Nothing is left of the import.
func (b *bench) breakImport(t *testing.T) {
	t.Helper()
	bin := b.Path("podexecd", "claims", ".incomplete")
	written := func() int {
		entries, err := os.ReadDir(bin)
		check(t, err)
		return len(entries)
	}
	b.beginImport(t, archiveOfLines(t, "evil"), true)
	eventually(t, "the import has begun", func() error {
		if written() != 1 {
			return errors.New("nothing is written")
		}
		return nil
	})
	b.restartPodexecd(t, (*devnode.Process).Kill)
	eventually(t, "nothing is left of the import", func() error {
		if n := written(); n != 0 {
			return fmt.Errorf("%s has %d entries", bin, n)
		}
		return nil
	})
	// A call that ends without the end of its archive imports nothing either.
	stream := b.beginImport(t, archiveOfLines(t, "evil"), true)
	if _, err := stream.CloseAndRecv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "data_closed") {
		t.Errorf("an archive without its end: %v", err)
	}
	if n := written(); n != 0 {
		t.Errorf("%d entries are left of the archive without its end", n)
	}
}
