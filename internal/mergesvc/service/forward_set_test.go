package service_test

import (
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// TestG11ClusterSet: the cursor of synced names the replaced clusters, after a SET and if there are no changes: without
// them a consumer refuses it.
func TestG11ClusterSet(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	other := at("99")
	other.Cluster, other.Replaced = "d", []string{"c"}
	g.follow(other, other, 0, "x: web(uid=u1)")
	same := ahead(at("20"), "api/u1/web")
	same.KnownPods[0].SpecDigest = mergetest.Set("api", 1, "x: web(uid=u1)").Origins[0].Pods[0].SpecDigest
	for _, u := range []unit{g.watch(ahead(at("20"))).want("SET file: u1", "synced"), g.watch(same).want("synced")} {
		if p := u.cursor.GetPositions(); len(p) != 1 || p[0].GetCluster() != "d" || len(p[0].GetReplacedClusters()) != 1 {
			t.Errorf("the positions are %v; want one of the cluster d, which replaces another", p)
		}
	}
}
