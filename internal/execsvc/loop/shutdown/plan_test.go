package shutdown

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// The rows are those of the kubelet's migrateConfig.
func TestPeriods(t *testing.T) {
	for _, tc := range []struct {
		total, critical time.Duration
		want            []Period
	}{
		{0, 0, nil},
		{30 * time.Second, 0, []Period{{0, 30 * time.Second}, {2_000_000_000, 0}}},
		{30 * time.Second, 10 * time.Second, []Period{{0, 20 * time.Second}, {2_000_000_000, 10 * time.Second}}},
		{30 * time.Second, 30 * time.Second, []Period{{0, 0}, {2_000_000_000, 30 * time.Second}}},
		{2500 * time.Millisecond, time.Second, []Period{{0, time.Second}, {2_000_000_000, time.Second}}},
		{10 * time.Second, 30 * time.Second, nil},
		{10 * time.Second, -time.Second, nil},
	} {
		if diff := cmp.Diff(tc.want, Periods(tc.total, tc.critical)); diff != "" {
			t.Errorf("%v, %v for critical pods (-want +got):\n%s", tc.total, tc.critical, diff)
		}
	}
}

func TestWithin(t *testing.T) {
	periods := []Period{{0, 20 * time.Second}, {5, 10 * time.Second}}
	for most, want := range map[time.Duration][]time.Duration{
		time.Minute:      {20 * time.Second, 10 * time.Second},
		30 * time.Second: {20 * time.Second, 10 * time.Second},
		15 * time.Second: {10 * time.Second, 5 * time.Second},
		0:                {0, 0},
		-time.Second:     {0, 0},
	} {
		got := within(periods, most)
		if len(got) != 2 || got[0] != (Period{0, want[0]}) || got[1] != (Period{5, want[1]}) {
			t.Errorf("within %v: %v; want %v", most, got, want)
		}
	}
	if periods[0].Time != 20*time.Second {
		t.Error("the configured periods were changed")
	}
}

func newPod(name string, priority *int32, grace *int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Priority: priority, TerminationGracePeriodSeconds: grace},
	}
}

// The rows are those of the kubelet's groupByPriority: a pod belongs to the period of the nearest lower priority.
func TestGroups(t *testing.T) {
	byPriority := []Period{{100, 10 * time.Second}, {1, 20 * time.Second}, {10, 30 * time.Second}}
	for name, tc := range map[string]struct {
		periods    []Period
		priorities []int32
		want       []string
	}{
		"none":              {nil, []int32{0}, nil},
		"no pods":           {byPriority, nil, nil},
		"at the edges":      {byPriority, []int32{1, 10, 100}, []string{"1: 1", "10: 10", "100: 100"}},
		"between":           {byPriority, []int32{9, 11, 99, 101}, []string{"1: 9", "10: 11 99", "100: 101"}},
		"below all":         {byPriority, []int32{0, -5, 2}, []string{"1: 0 -5 2"}},
		"an empty one":      {byPriority, []int32{1, 200}, []string{"1: 1", "100: 200"}},
		"the lowest of all": {byPriority, []int32{math.MinInt32, math.MaxInt32}, []string{"1: -2147483648", "100: 2147483647"}},
		"periods twice":     {[]Period{{5, 1}, {0, 2}, {5, 3}}, []int32{4, 5, 6}, []string{"0: 4", "5: 5 6"}},
		"critical, or not":  {Periods(30*time.Second, 10*time.Second), []int32{0, 2_000_001_000, 1_999_999_999}, []string{"0: 0 1999999999", "2000000000: 2000001000"}},
	} {
		var pods []*v1.Pod
		for _, p := range tc.priorities {
			pods = append(pods, newPod(fmt.Sprint(p), &p, nil))
		}
		var got []string
		for _, g := range groups(tc.periods, pods) {
			var names []string
			for _, pod := range g.pods {
				names = append(names, pod.Name)
			}
			got = append(got, fmt.Sprintf("%d: %s", g.Priority, strings.Join(names, " ")))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q; want %q", name, got, tc.want)
		}
	}
	if got := groups(byPriority, []*v1.Pod{newPod("none", nil, nil)}); len(got) != 1 || got[0].Priority != 1 {
		t.Errorf("a pod without a priority: %v", got)
	}
}

func TestGrace(t *testing.T) {
	g := group{Period: Period{0, 10*time.Second + 900*time.Millisecond}}
	for _, tc := range []struct {
		own  *int64
		want int64
	}{{nil, 10}, {ptr.To[int64](5), 5}, {ptr.To[int64](10), 10}, {ptr.To[int64](30), 10}, {ptr.To[int64](0), 0}, {ptr.To[int64](-5), -5}, {ptr.To[int64](math.MaxInt64), 10}} {
		if got := g.grace(newPod("a", nil, tc.own)); got != tc.want {
			t.Errorf("its own is %v: %d; want %d", tc.own, got, tc.want)
		}
	}
}
