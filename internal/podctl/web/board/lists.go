package board

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/web/manifestplace"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The bounds of lists.
const (
	maxFindings, maxFindingBytes = 200, 128 << 10
	maxRefusals                  = 20
	maxEvents                    = 2000
	maxConsumers                 = 20_000
	maxSources                   = 1000
	maxManifests                 = 50
)

// ApplySources replaces the sources. It reads the manifests of the findings. One goroutine calls it.
func (b *Board) ApplySources(ctx context.Context, sources []*podconfigv1.Source) {
	rows := map[string]*podwebv1.SourceRow{}
	for i, s := range sources[:min(len(sources), maxSources)] {
		row := &podwebv1.SourceRow{
			Key: Key("source", s.GetName()), Name: plaintext.Line(s.GetName(), plaintext.Name), Priority: int32(i), //nolint:gosec // It is bounded.
			Location: plaintext.Line(s.GetLocation(), plaintext.Message), Ready: s.GetReady(), ReadyRevision: s.GetReadyRevision(),
			Pods: s.GetPodCount(), LastRead: s.GetLastReadTime(), LastHeard: s.GetLastHeardTime(),
			LastError: plaintext.Line(s.GetLastError(), plaintext.Message), Digest: plaintext.Line(s.GetDigest(), plaintext.Name),
		}
		b.addFindings(ctx, row, s)
		rows[row.GetKey()] = row
	}
	b.Sources.Replace(rows)
}

func (b *Board) addFindings(ctx context.Context, row *podwebv1.SourceRow, s *podconfigv1.Source) {
	bytes, manifests := 0, map[string]*manifestplace.Manifest{}
	read := func(path string) *manifestplace.Manifest {
		m, known := manifests[path]
		if !known && len(manifests) < maxManifests {
			m = b.manifest(ctx, s.GetLocation(), path)
			manifests[path] = m
		}
		return m
	}
	for i, f := range s.GetFindings() {
		if i == maxFindings || bytes > maxFindingBytes {
			row.OmittedFindings = int32(len(s.GetFindings()) - i) //nolint:gosec // A message has fewer.
			break
		}
		finding := Finding(f, read(f.GetOrigin()))
		for _, line := range finding.GetLines() {
			bytes += len(line.GetText())
		}
		bytes += len(finding.GetMessage()) + len(finding.GetOrigin())
		row.Findings = append(row.Findings, finding)
	}
}

// manifest returns a manifest of a source. Nil: it can't be read; the finding then has no lines. One that hasn't changed
// isn't parsed again.
func (b *Board) manifest(ctx context.Context, location, path string) *manifestplace.Manifest {
	if b.cfg.ReadManifest == nil {
		return nil
	}
	content, err := b.cfg.ReadManifest(ctx, location, path)
	if err != nil {
		return nil
	}
	hash := sha256.Sum256(content)
	if kept := b.manifests[path]; kept != nil && kept.hash == hash {
		return kept.manifest
	}
	if len(b.manifests) >= maxManifests {
		clear(b.manifests)
	}
	b.manifests[path] = &keptManifest{hash, manifestplace.New(content)}
	return b.manifests[path].manifest
}

// keptManifest is a manifest that was read before.
type keptManifest struct {
	hash     [sha256.Size]byte
	manifest *manifestplace.Manifest
}

// Finding returns a finding, with the place of the mistake in its manifest. Nil: the manifest isn't known.
func Finding(f *podconfigv1.Finding, m *manifestplace.Manifest) *podwebv1.Finding {
	out := &podwebv1.Finding{
		Severity: strings.TrimPrefix(f.GetSeverity().String(), "FINDING_SEVERITY_"), Origin: plaintext.Line(f.GetOrigin(), plaintext.Message),
		Document: f.GetDocument(), Field: plaintext.Line(f.GetField(), plaintext.Name), Message: plaintext.Line(f.GetMessage(), plaintext.Message),
	}
	for _, ref := range f.GetKeptPods()[:min(len(f.GetKeptPods()), maxRefusals)] {
		out.KeptPods = append(out.KeptPods, plaintext.Line(ref.GetNamespace()+"/"+ref.GetName(), plaintext.Name))
	}
	if m == nil {
		return out
	}
	place := m.Find(int(f.GetDocument()), f.GetField(), f.GetMessage())
	out.Line, out.Column = int32(place.Line), int32(place.Column) //nolint:gosec // A manifest is smaller.
	for _, line := range m.Around(place) {
		out.Lines = append(out.Lines, &podwebv1.SourceLine{
			Number: int32(line.Number), Text: line.Text, Marked: line.Marked, MarkFrom: int32(line.From), MarkTo: int32(line.To), //nolint:gosec // As above.
		})
	}
	return out
}

// ApplyConsumers replaces the consumers, and what the nodes' rows have of them.
func (b *Board) ApplyConsumers(consumers []*podconfigv1.Consumer) {
	rows, reports := map[string]*podwebv1.ConsumerRow{}, map[string]*podwebv1.NodeRow{}
	for i, c := range consumers[:min(len(consumers), maxConsumers)] {
		key := Key("consumer", c.GetName(), c.GetIdentity(), fmt.Sprint(c.GetObjects()))
		if rows[key] != nil {
			key = Key("consumer", fmt.Sprint(i))
		}
		row := consumerRow(key, c)
		rows[key] = row
		if !c.GetObjects() {
			for _, node := range nodesOf(c) {
				reports[node] = report(reports[node], row, len(c.GetLastReport().GetErrors()))
			}
		}
	}
	b.Consumers.Replace(rows)

	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.nodeReports
	b.nodeReports = reports
	for node := range before {
		b.showNode(node)
	}
	for node := range reports {
		b.showNode(node)
	}
	b.findGateway()
}

func consumerRow(key string, c *podconfigv1.Consumer) *podwebv1.ConsumerRow {
	word := strings.TrimPrefix
	row := &podwebv1.ConsumerRow{
		Key: key, Name: plaintext.Line(c.GetName(), plaintext.Name), Identity: plaintext.Line(c.GetIdentity(), plaintext.Name),
		Peer: plaintext.Line(c.GetPeer(), plaintext.Name), State: word(c.GetState().String(), "CONSUMER_STATE_"),
		Revision: c.GetCursor().GetRevision(), LagRevisions: c.GetLagRevisions(), LaggingSince: c.GetLaggingSince(),
		ConnectedTime: c.GetConnectedTime(), Format: word(c.GetFormat().String(), "POD_FORMAT_"), Objects: c.GetObjects(),
		Filter:           plaintext.Line(podsummary.FilterText(c.GetFilter()), plaintext.Message),
		ReportedRevision: c.GetLastReport().GetCursor().GetRevision(),
		Rejected:         c.GetLastReport().GetOutcome() == podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED,
	}
	if !c.GetObjects() {
		row.Mode = word(c.GetMode().String(), "NOTIFICATION_MODE_")
	}
	for i, e := range c.GetLastReport().GetErrors() {
		if i == maxRefusals {
			row.OmittedRefusals = int32(len(c.GetLastReport().GetErrors()) - i) //nolint:gosec // A message has fewer.
			break
		}
		row.Refusals = append(row.Refusals, &podwebv1.Refusal{
			Name: Name(e.GetRef()), Reason: plaintext.Line(e.GetReason(), plaintext.Name), Message: plaintext.Line(e.GetMessage(), 1<<10),
		})
	}
	for _, h := range c.GetHeldSources()[:min(len(c.GetHeldSources()), maxRefusals)] {
		row.HeldSources = append(row.HeldSources, plaintext.Line(h.GetName()+": "+h.GetReason(), 1<<10))
	}
	return row
}

// ApplyEvent adds an event, or replaces it if it happened again.
func (b *Board) ApplyEvent(e *podexecv1.PodEvent) {
	row := EventRow(e)
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.events, row.GetKey()); i >= 0 {
		b.events = slices.Delete(b.events, i, i+1)
	} else if len(b.events) == maxEvents {
		b.Events.Remove(b.events[0])
		b.events = slices.Delete(b.events, 0, 1)
	}
	b.events = append(b.events, row.GetKey())
	b.Events.Put(row.GetKey(), row)
}

// EventRow returns the row of an event.
func EventRow(e *podexecv1.PodEvent) *podwebv1.EventRow {
	uid := e.GetRef().GetUid()
	return &podwebv1.EventRow{
		Key: Key("event", uid, e.GetContainer(), e.GetType(), e.GetReason(), e.GetMessage()), PodKey: Key("pod", uid), Pod: Name(e.GetRef()),
		Container: plaintext.Line(e.GetContainer(), plaintext.Name), Type: plaintext.Line(e.GetType(), plaintext.Name),
		Reason: plaintext.Line(e.GetReason(), plaintext.Name), Message: plaintext.Line(e.GetMessage(), plaintext.Message), Count: e.GetCount(),
		FirstTime: valid(e.GetFirstTime()), LastTime: valid(e.GetLastTime()),
	}
}

func valid(t *timestamppb.Timestamp) *timestamppb.Timestamp {
	if t.IsValid() {
		return t
	}
	return nil
}
