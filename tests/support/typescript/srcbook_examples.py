"""The cells of the two usage examples of the Srcbook specification, as they are written there."""

__all__ = ["ANALYSIS", "BENCHMARK", "BUBBLE_SORT", "QUICK_SORT", "SALES"]

SALES = """
    const salesData = [
      { month: 'Oct', revenue: 125000, units: 543 },
      { month: 'Nov', revenue: 148000, units: 621 },
      { month: 'Dec', revenue: 172000, units: 701 }
    ];
    console.log('Data loaded:', salesData.length, 'months');
  """
ANALYSIS = """
    const totalRevenue = salesData.reduce((sum, m) => sum + m.revenue, 0);
    const avgRevenue = totalRevenue / salesData.length;
    console.log('Q4 Summary:');
    console.log('- Total Revenue: $' + totalRevenue.toLocaleString());
    console.log('- Average Monthly: $' + avgRevenue.toLocaleString());
  """
BUBBLE_SORT = """
    // Bubble sort implementation
    function bubbleSort(arr: number[]): number[] {
      const n = arr.length;
      for (let i = 0; i < n - 1; i++) {
        for (let j = 0; j < n - i - 1; j++) {
          if (arr[j] > arr[j + 1]) {
            [arr[j], arr[j + 1]] = [arr[j + 1], arr[j]];
          }
        }
      }
      return arr;
    }
  """
QUICK_SORT = """
    // Quick sort implementation
    function quickSort(arr: number[]): number[] {
      if (arr.length <= 1) return arr;
      const pivot = arr[0];
      const left = arr.slice(1).filter(x => x < pivot);
      const right = arr.slice(1).filter(x => x >= pivot);
      return [...quickSort(left), pivot, ...quickSort(right)];
    }
  """
BENCHMARK = """
    const testData = Array.from({length: 1000}, () => Math.random() * 1000);

    console.time('Bubble Sort');
    bubbleSort([...testData]);
    console.timeEnd('Bubble Sort');

    console.time('Quick Sort');
    quickSort([...testData]);
    console.timeEnd('Quick Sort');
  """
