// SPDX-License-Identifier: Apache-2.0
//
// C++: the agent as an object with a scope, and a timed run around a piece of work. It prints what
// the work left in memory, and writes the profile to the file that is named.
//
//	MALLOC_CONF=prof:true,prof_active:false ./cplusplus work.heap
//	heapctl report --text work.heap
#include <heapctl.h>

#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

void check(int code, const heapctl_error &err)
{
	if (code != HEAPCTL_OK)
		throw std::runtime_error(std::string(err.message) + " (" + err.hint + ")");
}

class Agent
{
      public:
	Agent()
	{
		heapctl_options options{};
		heapctl_error err{};

		options.size = sizeof options;
		options.log = [](void *, int, const char *message) {
			std::clog << message << '\n';
		};
		check(heapctl_start(&options, &err), err);
	}
	~Agent()
	{
		heapctl_stop();
	}
	Agent(const Agent &) = delete;
	Agent &operator=(const Agent &) = delete;

	heapctl_status status() const
	{
		heapctl_status status{};
		heapctl_error err{};

		status.size = sizeof status;
		check(heapctl_get_status(&status, &err), err);
		return status;
	}

	std::string statistics() const
	{
		std::string text;
		heapctl_error err{};
		const auto append = [](void *context, const char *data, std::size_t size) {
			static_cast<std::string *>(context)->append(data, size);
			return 0;
		};

		check(heapctl_stats(nullptr, append, &text, &err), err);
		return text;
	}

	// Samples while `work` is done.
	template <typename Work> heapctl_run record(const Work &work) const
	{
		heapctl_run run{};
		heapctl_error err{};

		run.size = sizeof run;
		check(heapctl_run_start(3600 * 1000, &run, &err), err);
		work();
		check(heapctl_run_stop(&run, &err), err);
		return run;
	}

	void dump(const std::string &path) const
	{
		heapctl_error err{};

		check(heapctl_dump_path(path.c_str(), &err), err);
	}
};

std::map<int, std::vector<std::string>> make_index()
{
	std::map<int, std::vector<std::string>> index;

	for (int i = 0; i < 100000; i++)
		index[i % 1000].emplace_back(200, 'x');
	return index;
}

} // namespace

int main(int argc, char **argv)
try {
	const Agent agent;
	const heapctl_status before = agent.status();

	if (!before.available) {
		std::cerr << "no profiling: " << before.reason << " (" << before.hint << ")\n";
		return 1;
	}
	std::map<int, std::vector<std::string>> index;
	const heapctl_run run = agent.record([&index] { index = make_index(); });
	agent.dump(argc > 1 ? argv[1] : "cplusplus.heap");
	std::cout << "run " << run.id << ": " << agent.status().allocated - before.allocated
		  << " bytes more, profile of " << run.profile_bytes << " bytes, statistics of "
		  << agent.statistics().size() << " bytes\n";
	return index.size() == 1000 ? 0 : 1;
} catch (const std::exception &problem) {
	std::cerr << problem.what() << '\n';
	return 1;
}
