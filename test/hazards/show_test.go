package hazards

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// revisionLine shows one revision on one line. It is empty if the revision has nothing to show.
func revisionLine(r *stream.Revision) (string, error) {
	var parts []string
	for _, u := range r.Updates {
		text, err := updateText(u)
		if err != nil {
			return "", err
		}
		parts = append(parts, text)
	}
	if r.Synced != nil {
		text := "synced"
		for _, src := range r.Synced.GetSources() {
			text += " " + src.GetName() + readiness(src.GetReady())
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; "), nil
}

func readiness(ready bool) string {
	if ready {
		return "=ready"
	}
	return "=unready"
}

// updateText shows one op: its pods, or that a source is ready.
func updateText(u *podconfigv1.PodUpdate) (string, error) {
	text := strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_")
	if len(u.GetPods()) == 0 {
		return text + " " + u.GetSource() + readiness(u.GetSourceReady()), nil
	}
	for i, p := range u.GetPods() {
		shown, err := showPod(p)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text += ","
		}
		text += " " + shown
	}
	return text, nil
}

// showPod shows SOURCE NAMESPACE/NAME UID and, if the content is there, its version.
func showPod(p *podconfigv1.Pod) (string, error) {
	text := fmt.Sprintf("%s %s/%s %s", p.GetSource(), p.GetRef().GetNamespace(), p.GetRef().GetName(), mark("u", p.GetRef().GetUid()))
	if p.GetProtobuf() != nil {
		var pod v1.Pod
		if err := pod.Unmarshal(p.GetProtobuf()); err != nil {
			return "", err
		}
		_, version, _ := strings.Cut(pod.Spec.Containers[0].Image, ":")
		text += " " + version
		if pod.DeletionTimestamp != nil {
			text += " deleting"
		}
	}
	if p.GetStale() {
		text += " stale"
	}
	return text, nil
}

func pods(s *scenario, d *datadriven.TestData) string {
	return s.until(d, func() (string, error) {
		var out []string
		for token := ""; ; {
			resp, err := s.config.ListPods(s.t.Context(), &podconfigv1.ListPodsRequest{
				Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, PageToken: token,
			})
			if err != nil {
				return "", err
			}
			for _, p := range resp.GetPods() {
				line, err := showPod(p)
				if err != nil {
					return "", err
				}
				out = append(out, line)
			}
			if token = resp.GetNextPageToken(); token == "" {
				return unlines(s.names.sorted(out)), nil
			}
		}
	})
}

func sources(s *scenario, d *datadriven.TestData) string {
	return s.until(d, func() (string, error) {
		resp, err := s.config.ListSources(s.t.Context(), &podconfigv1.ListSourcesRequest{})
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for _, src := range resp.GetSources() {
			fmt.Fprintf(&b, "%s%s pods=%d", src.GetName(), readiness(src.GetReady()), src.GetPodCount())
			if src.GetLastError() != "" {
				fmt.Fprintf(&b, " error: %s", src.GetLastError())
			}
			b.WriteString("\n")
			for _, f := range src.GetFindings() {
				b.WriteString("  " + finding(f) + "\n")
			}
		}
		return b.String(), nil
	})
}

// finding shows a finding in one line.
func finding(f *podconfigv1.Finding) string {
	text := strings.ToLower(strings.TrimPrefix(f.GetSeverity().String(), "FINDING_SEVERITY_")) + ": " + f.GetOrigin()
	if f.GetDocument() > 0 {
		text += fmt.Sprintf(" document %d", f.GetDocument())
	}
	if f.GetField() != "" {
		text += " " + f.GetField()
	}
	text += ": " + f.GetMessage()
	for _, kept := range f.GetKeptPods() {
		text += fmt.Sprintf(" [keeps %s/%s]", kept.GetNamespace(), kept.GetName())
	}
	return text
}

// diff shows UIDs as they are.
func diff(s *scenario, d *datadriven.TestData) string {
	resp, err := s.config.DiffManifests(s.t.Context(), &podconfigv1.DiffManifestsRequest{
		Manifests: []*podconfigv1.ManifestInput{{Origin: s.arg(d, 0), Content: []byte(content(d))}},
	})
	s.check(err)
	var out []string
	for _, u := range resp.GetUpdates() {
		for _, p := range u.GetPods() {
			out = append(out, fmt.Sprintf("%s %s uid=%s", strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_"), p.GetRef().GetName(), p.GetRef().GetUid()))
		}
	}
	for _, f := range resp.GetFindings() {
		out = append(out, finding(f))
	}
	return s.shorten(unlines(out))
}
