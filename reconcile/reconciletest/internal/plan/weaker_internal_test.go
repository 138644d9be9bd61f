package plan

import (
	"slices"
	"testing"

	"github.com/onsi/gomega"
)

// A kind, a fault, an outage or a clock without a strength would stay in a
// counter-example although a weaker one fails as well, and nothing would say so.
func TestEveryDeviationHasAStrength(t *testing.T) {
	g := gomega.NewWithT(t)
	for kind := range kinds {
		g.Expect(weaker).To(gomega.HaveKey(kind), "kind %c: add it to weaker", kind)
	}
	for kind := range weaker {
		g.Expect(kinds).To(gomega.HaveKey(kind), "kind %c is not one any more", kind)
	}
	for fault := range callWords {
		if fault != Hold { // a slow call has no fault
			g.Expect(slices.Concat(callStrength, misleading)).To(gomega.ContainElement(fault), "a call with %v", fault)
		}
	}
	for fault := range deliveryWords {
		g.Expect(deliveryStrength).To(gomega.ContainElement(fault), "a delivery with %v", fault)
	}
	for n := range outageWords {
		g.Expect(outageStrength).To(gomega.ContainElement(n), "outage %d", n)
	}
	for way := range skewWords {
		g.Expect(skewStrength).To(gomega.ContainElement(way), "clock %d", way)
	}
}

// Without words, a fault would have an empty text in a failure, and the test
// above would not see it.
func TestEveryFaultHasWords(t *testing.T) {
	g := gomega.NewWithT(t)
	for code, fault := range faultCodes {
		g.Expect(callWords[fault]+deliveryWords[fault]).NotTo(gomega.BeEmpty(), "fault %q", code)
	}
	for kind, k := range kinds {
		ofTables := []byte{AtCall, AtDelivery, Outage, Skewed}
		g.Expect(k.words != "" || slices.Contains(ofTables, kind)).To(gomega.BeTrue(), "kind %c", kind)
	}
}

func TestWeakerDeviationsAreFromTheWeakest(t *testing.T) {
	for text, want := range map[string]string{
		"c3.after": "c3.409+c3.500+c3.429+c3.refused+c3.410+c3.lost+c3.late+c3.before",
		"c3.409":   "",
		"c3.other": "c3.500+c3.proxy+c3.unserved",
		"c3.proxy": "c3.500",
		"c3":       "",
		"d3.410":   "d3.twice+d3+d3.drop",
		"y2.4":     "u2+y2.3+y2.2+y2.1",
		"D3":       "D1+D2",
		"t2.3":     "t2.0",
		"t2.0":     "",
		"b1.2":     "t1.0",
		"E1.2":     "t1.0",
		"n4":       "",
		"k4":       "x4",
		"e4":       "",
	} {
		t.Run(text, func(t *testing.T) {
			g := gomega.NewWithT(t)
			p, err := Parse(text)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(Plan(p[0].Weaker()).String()).To(gomega.Equal(want))
		})
	}
}
