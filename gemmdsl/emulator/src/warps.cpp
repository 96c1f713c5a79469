// Lanes of a warp that meet: __syncwarp, shuffles, votes.

#include "checker.h"
#include "gemm_emulator.h"
#include "worker.h"

namespace gemm_emu {

namespace {

// Completes a rendezvous when all lanes of the running fiber's mask have come with the same mask.
void meet(Worker& worker) {
    Fiber& fiber = worker.running();
    const unsigned number = worker.order[worker.cursor];
    Fiber* lanes = worker.fibers + number / WARP_LANES * WARP_LANES;
    const unsigned lane_count =
        worker.count - number / WARP_LANES * WARP_LANES < WARP_LANES ? worker.count % WARP_LANES : WARP_LANES;
    // Lanes beyond the end of the block do not exist; a full mask does not wait for them.
    const uint32_t existing = lane_count == WARP_LANES ? 0xffffffffu : (1u << lane_count) - 1;
    const uint32_t mask = fiber.mask & existing;
    if ((mask >> (number % WARP_LANES) & 1) == 0) {
        set_message(worker, "thread %u is not in the mask %#x of the warp operation on line %d", number, fiber.mask,
                    fiber.line);
        abandon(worker);
    }
    uint32_t votes = 0;
    bool complete = true;
    for (unsigned lane = 0; lane < lane_count; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        const Fiber& other = lanes[lane];
        complete &= other.wait == Wait::Warp && other.mask == fiber.mask && other.is_ballot == fiber.is_ballot;
        votes |= static_cast<uint32_t>(other.predicate) << lane;
    }
    if (!complete) return;
    for (unsigned lane = 0; lane < lane_count; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        Fiber& other = lanes[lane];
        if (!other.is_ballot && (mask >> other.source & 1) == 0) {
            set_message(worker, "thread %u reads lane %d, which is not in the mask %#x, on line %d",
                        static_cast<unsigned>(&other - worker.fibers), other.source, other.mask, other.line);
            abandon(worker);
        }
        other.result = other.is_ballot ? votes : lanes[other.source].value;
        other.wait = Wait::Ready;
    }
    check_rendezvous(static_cast<unsigned>(lanes - worker.fibers), mask);
}

uint64_t rendezvous(Worker& worker) {
    Fiber& fiber = worker.running();
    fiber.wait = Wait::Warp;
    meet(worker);
    yield(worker, after(worker));
    return fiber.result;
}

}  // namespace

uint64_t exchange(uint32_t mask, uint64_t value, int source, int line) {
    Worker& worker = *local.worker;
    Fiber& fiber = worker.running();
    fiber.mask = mask;
    fiber.value = value;
    fiber.source = source & (WARP_LANES - 1);
    fiber.line = line;
    fiber.is_ballot = false;
    return rendezvous(worker);
}

uint32_t ballot(uint32_t mask, bool predicate, int line) {
    Worker& worker = *local.worker;
    Fiber& fiber = worker.running();
    fiber.mask = mask;
    fiber.predicate = predicate;
    fiber.line = line;
    fiber.is_ballot = true;
    return static_cast<uint32_t>(rendezvous(worker));
}

}  // namespace gemm_emu
